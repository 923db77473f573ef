"""What is taught of a record, with which weight, and in which batch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="needs the training libraries")

from support.records import make_record
from support.tiny_model import make_tokenizer

from contract.labels import Label
from training.config import ModelConfig, WarmstartConfig
from training.errors import DataError
from training.models import Codec
from training.records import Record
from training.supervision import (
    MAX_GROUP_TOKENS,
    Group,
    Justification,
    Taught,
    group_records,
    make_batch,
    plan_batches,
    share_equally,
    teach,
    weigh_classes,
)
from training.tries import Target

RIGHT = make_record("a-0", response="Ada Berg")
WRONG = make_record("a-1", response="Carl Moe", label=Label.HALLUCINATION)
# Powers of two, whose halves and sums are exact.
WEIGHTS = WarmstartConfig(label_weight=1.0, short_path_weight=0.5, justification_weight=0.25)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(make_tokenizer())


SAYS_SO = Justification("It says so.")


def say_so(record: Record) -> tuple[Justification, ...]:
    return (SAYS_SO,)


def make_groups(
    codec: Codec,
    records: Sequence[Record],
    config: WarmstartConfig = WEIGHTS,
    seed: int = 1,
    max_prompt_tokens: int = 1024,
) -> list[Group]:
    model = ModelConfig(max_prompt_tokens=max_prompt_tokens)
    return group_records(records, codec, model, config, seed, say_so)


def test_the_short_path_teaches_the_label_alone_right_after_the_prompt(codec: Codec) -> None:
    (taught,) = teach(WRONG, codec, WEIGHTS, ())
    prompt = codec.prompt(WRONG.example)
    label = codec.label_token_ids[Label.HALLUCINATION]
    assert taught.tokens == [*prompt, *codec.cue(None), label]
    assert taught.weights == {len(taught.tokens) - 1: 0.5}
    assert taught.label_place == len(taught.tokens) - 1


def test_a_whole_reply_teaches_every_token_of_its_own_and_none_of_the_prompt(codec: Codec) -> None:
    short, whole = teach(RIGHT, codec, WEIGHTS, (SAYS_SO,))
    prompt = codec.prompt(RIGHT.example)
    assert whole.tokens[: len(prompt)] == prompt
    assert codec.decode(whole.tokens[len(prompt) :]) == "It says so.\nClass: correct"
    assert whole.tokens[-1] == codec.tokenizer.eos_token_id
    assert set(whole.weights) == set(range(len(prompt), len(whole.tokens)))
    assert whole.tokens[whole.label_place] == codec.label_token_ids[Label.CORRECT]
    assert whole.weights[whole.label_place] == 1.0
    rest = [weight for place, weight in whole.weights.items() if place != whole.label_place]
    assert sum(rest) == pytest.approx(0.25)
    assert len(set(rest)) == 1
    assert short.weights == {short.label_place: 0.5}


def test_several_replies_share_the_weight_of_one(codec: Codec) -> None:
    short, one, other = teach(
        RIGHT, codec, WEIGHTS, share_equally(["It says so.", "Ada Berg built it."])
    )
    assert one.weights[one.label_place] == other.weights[other.label_place] == 0.5
    # 0.5 for each label and 0.25 / 2 for the rest of each.
    assert sum(one.weights.values()) == pytest.approx(0.625)
    assert sum(other.weights.values()) == pytest.approx(0.625)
    assert sum(short.weights.values()) == 0.5


def test_after_an_own_justification_the_label_alone_is_taught(codec: Codec) -> None:
    said = (Justification("It says so.", 0.25), Justification("Moe did.", 0.75, is_taught=False))
    short, gold, own = teach(RIGHT, codec, WEIGHTS, said)
    # 0.25 for the label, and the justification's 0.25 undivided.
    assert gold.weights[gold.label_place] == 0.25
    assert sum(gold.weights.values()) == pytest.approx(0.5)
    assert own.tokens == [
        *codec.prompt(RIGHT.example),
        *codec.cue("Moe did."),
        codec.label_token_ids[Label.CORRECT],
    ]
    assert own.weights == {own.label_place: 0.75}
    assert own.label_place == len(own.tokens) - 1
    assert [each.is_short for each in (short, gold, own)] == [True, False, False]


def test_the_weight_of_a_class_scales_labels_and_no_justification(codec: Codec) -> None:
    short, whole = teach(RIGHT, codec, WEIGHTS, (SAYS_SO,), class_weight=2.0)
    assert short.weights == {short.label_place: 1.0}
    assert whole.weights[whole.label_place] == 2.0
    assert sum(whole.weights.values()) == pytest.approx(2.25)


def make_side(set_name: str, treatment: str, num_right: int, num_wrong: int = 0) -> list[Record]:
    labels = [Label.CORRECT] * num_right + [Label.HALLUCINATION] * num_wrong
    return [
        make_record(f"{treatment}{i}-0", set_name=set_name, treatment=treatment, label=label)
        for i, label in enumerate(labels)
    ]


def test_both_classes_weigh_alike_in_originals_and_made_rows_of_each_set() -> None:
    records = [
        *make_side("pools", "raw", 2, 1),
        # Counts as an original, whose place it has taken.
        *make_side("pools", "short-right", 1),
        *make_side("pools", "perturbed", 5, 3),
        *make_side("lakes", "kept", 2),
    ]
    right, wrong = Label.CORRECT, Label.HALLUCINATION
    assert weigh_classes(records) == {
        # 3 and 1 of 4: 4 / 2 / 3 and 4 / 2 / 1.
        ("pools", True, right): pytest.approx(2 / 3),
        ("pools", True, wrong): 2.0,
        # 5 and 3 of 8.
        ("pools", False, right): pytest.approx(0.8),
        ("pools", False, wrong): pytest.approx(4 / 3),
        # Nothing to balance with.
        ("lakes", True, right): 0.5,
    }


def test_a_rare_class_weighs_no_more_than_twice() -> None:
    weights = weigh_classes(make_side("pools", "raw", 9, 1))
    assert weights["pools", True, Label.HALLUCINATION] == 2.0
    assert weigh_classes([]) == {}


def test_labels_are_weighed_by_class_only_where_it_is_asked_for(codec: Codec) -> None:
    def labels(config: WarmstartConfig) -> list[float]:
        groups = make_groups(codec, make_side("pools", "raw", 3, 1), config)
        taught = [each for group in groups for each in group.sequences if not each.is_short]
        return sorted(each.weights[each.label_place] for each in taught)

    assert labels(WEIGHTS) == [1.0] * 4
    balanced = WEIGHTS.model_copy(update={"is_class_balanced": True})
    assert labels(balanced) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0])


@pytest.mark.parametrize(
    ("weights", "num_sequences"),
    [
        ({"short_path_weight": 0.0}, 1),
        ({"label_weight": 0.0}, 1),
        ({"label_weight": 0.0, "short_path_weight": 0.0}, 0),
        ({"justification_weight": 0.0}, 2),
    ],
    ids=str,
)
def test_a_label_of_no_weight_leaves_its_path_out(
    codec: Codec, weights: dict[str, float], num_sequences: int
) -> None:
    config = WEIGHTS.model_copy(update=weights)
    assert len(teach(RIGHT, codec, config, (SAYS_SO,))) == num_sequences


def test_the_records_of_a_pair_stand_in_one_group_and_share_their_beginning(codec: Codec) -> None:
    other = make_record("b-0")
    same_pair_elsewhere = make_record("a-0", set_name="lakes")
    groups = make_groups(codec, [RIGHT, other, WRONG, same_pair_elsewhere])
    assert [(group.set_name, group.num_records) for group in groups] == [
        ("pools", 2),
        ("pools", 1),
        ("lakes", 1),
    ]
    assert [len(group.sequences) for group in groups] == [4, 2, 2]
    first = groups[0]
    assert first.num_tokens < sum(len(taught.tokens) for taught in first.sequences) / 2


def test_some_records_teach_a_justification_and_the_rest_the_short_path(codec: Codec) -> None:
    records = [make_record(f"{i}-0") for i in range(60)]
    config = WEIGHTS.model_copy(update={"justified_share": 0.5})
    counts = [len(group.sequences) for group in make_groups(codec, records, config)]
    assert set(counts) == {1, 2}
    assert 15 < counts.count(2) < 45
    none = WEIGHTS.model_copy(update={"justified_share": 0.0})
    assert {len(group.sequences) for group in make_groups(codec, records, none)} == {1}


def test_a_record_without_any_path_is_left_out(codec: Codec) -> None:
    """It was a crash: the longest of no sequences."""
    config = WEIGHTS.model_copy(update={"short_path_weight": 0.0, "justified_share": 0.5})
    groups = make_groups(codec, [make_record(f"{i}-0") for i in range(60)], config)
    assert 15 < len(groups) < 45
    assert all(len(group.sequences) == 1 for group in groups)


def test_a_prompt_over_the_budget_is_left_out_and_counted(
    codec: Codec, caplog: pytest.LogCaptureFixture
) -> None:
    long = make_record("c-0", knowledge="A very long text about pools. " * 60)
    budget = len(codec.prompt(RIGHT.example))
    groups = make_groups(codec, [RIGHT, long], max_prompt_tokens=max(192, budget))
    assert sum(group.num_records for group in groups) == 1
    assert "1 of 2 records are left out: prompts over" in caplog.text
    assert "model.max_prompt_tokens" in caplog.text


def test_where_nothing_is_left_to_teach_the_run_ends(codec: Codec) -> None:
    nothing = WEIGHTS.model_copy(update={"label_weight": 0.0, "short_path_weight": 0.0})
    for records, config in (([], WEIGHTS), ([RIGHT], nothing)):
        with pytest.raises(DataError, match="nothing to teach"):
            make_groups(codec, records, config)


def test_a_text_with_many_responses_is_cut_into_groups_that_hold_each_once(codec: Codec) -> None:
    text = "The Lind Pool was built in 1925 by Ada Berg. " * 20
    records = [
        make_record(f"a-{i}", knowledge=text, response=f"It took {i} years.") for i in range(24)
    ]
    groups = make_groups(codec, records, max_prompt_tokens=4096)
    assert len(groups) > 2
    assert sum(group.num_records for group in groups) == 24
    taught = [tuple(each.tokens) for group in groups for each in group.sequences]
    assert len(taught) == len(set(taught)) == 48
    assert all(group.num_tokens < 2 * MAX_GROUP_TOKENS for group in groups)


def test_a_text_longer_than_a_group_is_a_group_of_its_own(codec: Codec) -> None:
    text = "The Lind Pool was built in 1925 by Ada Berg. " * 120
    records = [make_record(f"a-{i}", knowledge=text, response=str(i)) for i in range(2)]
    groups = make_groups(codec, records, max_prompt_tokens=16_384)
    assert [group.num_records for group in groups] == [1, 1]
    assert all(group.num_tokens > MAX_GROUP_TOKENS for group in groups)


def test_the_seed_decides_who_is_justified_and_the_order_of_a_pair(codec: Codec) -> None:
    records = [make_record(f"{i // 4}-{i % 4}", response=f"In {i}.") for i in range(40)]
    config = WEIGHTS.model_copy(update={"justified_share": 0.5})
    first, again = make_groups(codec, records, config), make_groups(codec, records, config)
    assert first == again
    assert make_groups(codec, records, config, seed=2) != first


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        # 2 x 20 is 40, 3 x 30 is more.
        ([10, 20, 30], {(0, 1), (2,)}),
        ([30, 10, 20], {(1, 2), (0,)}),
        ([100], {(0,)}),
        ([100, 5], {(1,), (0,)}),
        ([10, 10, 10, 10], {(0, 1, 2, 3)}),
        ([], set()),
    ],
)
def test_groups_of_like_length_share_a_batch_of_limited_size(
    sizes: list[int], batches: set[tuple[int, ...]]
) -> None:
    plan = plan_batches(sizes, 40, random.Random(1))
    assert {tuple(sorted(batch)) for batch in plan} == batches
    assert len(plan) == len(batches)


@given(st.lists(st.integers(1, 900), max_size=600), st.integers(100, 2000), st.integers(0, 9))
def test_each_group_stands_in_one_batch_and_no_batch_is_too_large(
    sizes: list[int], limit: int, seed: int
) -> None:
    plan = plan_batches(sizes, limit, random.Random(seed))
    assert sorted(itertools.chain.from_iterable(plan)) == list(range(len(sizes)))
    for batch in plan:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= limit
    assert plan_batches(sizes, limit, random.Random(seed)) == plan


RIGHTS, WRONGS = frozenset({Label.CORRECT}), frozenset({Label.HALLUCINATION})


def test_batches_hold_both_classes_where_groups_permit_it() -> None:
    """Right responses are short and wrong ones long: sorted by length, classes stood apart."""
    sizes = [10 + i // 50 for i in range(100)]
    labels = [RIGHTS if i < 50 else WRONGS for i in range(100)]
    plan = plan_batches(sizes, 44, random.Random(1), labels)
    assert {frozenset().union(*(labels[i] for i in batch)) for batch in plan} == {RIGHTS | WRONGS}
    assert sorted(itertools.chain.from_iterable(plan)) == list(range(100))
    assert max(len(batch) * max(sizes[i] for i in batch) for batch in plan) <= 44


def test_a_group_of_both_classes_is_given_to_one_that_stands_alone() -> None:
    both = RIGHTS | WRONGS
    # Two of three stand together, and which one is alone is chance.
    plans = [plan_batches([9] * 3, 20, random.Random(s), [RIGHTS, both, both]) for s in range(9)]
    assert {tuple(sorted(map(len, plan))) for plan in plans} == {(1, 2)}
    assert all([0] not in plan for plan in plans)
    # Here it stays alone: it would be too large beside another.
    assert [3] in plan_batches([9, 9, 9, 40], 40, random.Random(1), [both, both, both, RIGHTS])


@given(
    st.lists(st.tuples(st.integers(1, 90), st.sampled_from([RIGHTS, WRONGS, RIGHTS | WRONGS]))),
    st.integers(50, 400),
    st.integers(0, 9),
)
def test_mixing_classes_breaks_neither_sizes_nor_whole_batches(
    groups: list[tuple[int, frozenset[Label]]], limit: int, seed: int
) -> None:
    sizes, labels = [size for size, _ in groups], [each for _, each in groups]

    def count_whole(plan: Sequence[Sequence[int]]) -> int:
        return sum(len(frozenset().union(*(labels[i] for i in batch))) == 2 for batch in plan)

    plain = plan_batches(sizes, limit, random.Random(seed))
    mixed = plan_batches(sizes, limit, random.Random(seed), labels)
    assert sorted(itertools.chain.from_iterable(mixed)) == list(range(len(sizes)))
    for batch in mixed:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= limit
    assert count_whole(mixed) >= count_whole(plain)
    assert sorted(map(len, mixed)) == sorted(map(len, plain))
    if count_whole(plain) == len(plain):
        assert mixed == plain


def test_a_group_knows_its_classes(codec: Codec) -> None:
    (group,) = make_groups(codec, [RIGHT, WRONG])
    assert group.labels == RIGHTS | WRONGS
    (group,) = make_groups(codec, [RIGHT])
    assert group.labels == RIGHTS


def test_another_seed_gives_another_order() -> None:
    sizes = list(range(10, 110))
    assert plan_batches(sizes, 300, random.Random(1)) != plan_batches(sizes, 300, random.Random(2))


def test_a_batch_aligns_targets_tokens_and_weights() -> None:
    short = Taught([1, 2, 7], 2, {2: 0.5}, is_short=True)
    whole = Taught([1, 2, 3, 8, 9], 3, {2: 0.125, 4: 0.125, 3: 1.0})
    # Of an own justification the label alone is taught, which is no short path.
    other = Taught([1, 5, 8], 2, {2: 0.5})
    batch = make_batch([Group("a", [short, whole], 1), Group("b", [other], 2)])
    assert batch.num_records == 3
    assert batch.targets == [
        Target(0, 0, 2),
        Target(0, 1, 2),
        Target(0, 1, 4),
        Target(0, 1, 3),
        Target(1, 0, 2),
    ]
    assert batch.token_ids == [7, 3, 9, 8, 8]
    assert batch.weights == [0.5, 0.125, 0.125, 1.0, 0.5]
    assert batch.is_label == [True, False, False, True, True]
    assert batch.is_short == [True, False, False, False, False]
    assert batch.folded.prefix == [1]
    assert [row.tokens for row in batch.folded.rows] == [[2, 7, 3, 8, 9], [5, 8]]


def test_the_order_of_records_does_not_change_what_is_taught(codec: Codec) -> None:
    both = [RIGHT, WRONG, replace(RIGHT, id="a-2", response="Ada")]

    def taught(records: Sequence[Record]) -> set[tuple[int, ...]]:
        groups = make_groups(codec, records)
        return {tuple(each.tokens) for group in groups for each in group.sequences}

    assert taught(both) == taught(both[::-1])
