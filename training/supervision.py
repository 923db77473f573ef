"""From labelled records to supervised batches: which tokens are taught, and with which weight.

Each record gives the short path (the verdict line alone) and whole replies (justification, then the
verdict line), each a sequence of its own. The records of a pair form a group, whose common tokens
are computed once (``training/tries.py``).
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from contract.labels import Label
from training.config import ModelConfig, WarmstartConfig
from training.errors import DataError
from training.models import Codec, ReplyTokens
from training.records import Record
from training.treatment import ORIGINAL_TREATMENTS, group_pairs
from training.tries import Folded, Target, fold

logger = logging.getLogger(__name__)

Side = tuple[str, bool, Label]
"""Set, whether a row is an original, class."""

MAX_CLASS_WEIGHT = 2.0

MAX_GROUP_TOKENS = 1536
"""A text with many responses is cut into several groups: attention grows with the square."""

_BUCKET = 256
"""Groups that are sorted by length together, so that batches hold rows of like length."""


@dataclass(frozen=True, slots=True)
class Justification:
    """What a reply says before the gold class.

    Attributes:
        text: Without a verdict.
        label_share: Share of the record's ``label_weight`` that the label after it has, in [0, 1];
            those of a record sum to 1.
        is_taught: Its own tokens are taught too, and those of the reply's form.
    """

    text: str
    label_share: float = 1.0
    is_taught: bool = True


Justifications = Callable[[Record], Sequence[Justification]]
"""What replies to a record say first; none where the short path alone is taught."""


def share_equally(texts: Sequence[str]) -> tuple[Justification, ...]:
    """Return justifications that are all taught, and whose labels weigh the same."""
    return tuple(Justification(text, 1 / len(texts)) for text in texts)


@dataclass(frozen=True, slots=True)
class Taught:
    """A sequence with the tokens that are taught.

    Attributes:
        tokens: Prompt and reply.
        label_place: Place of the label's first token.
        weights: Place -> weight of its cross-entropy.
        is_short: It is a short path.
    """

    tokens: list[int]
    label_place: int
    weights: dict[int, float] = field(default_factory=dict)
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What one record teaches."""

    num_prompt_tokens: int
    sequences: list[Taught]
    label: Label


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that share knowledge.

    Attributes:
        set_name: Where they come from.
        sequences: What is taught.
        num_records: Records behind them.
        labels: Classes of these.
    """

    set_name: str
    sequences: list[Taught]
    num_records: int
    labels: frozenset[Label] = frozenset()

    @property
    def num_tokens(self) -> int:
        """Distinct tokens, what all prompts share included."""
        return fold([[taught.tokens for taught in self.sequences]]).num_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """What one optimizer step is computed from.

    Attributes:
        folded: The sequences.
        targets: Tokens to predict.
        token_ids: Their ids, [targets].
        weights: Of their cross-entropies, [targets].
        is_label: Whether a target is a label's first token, [targets].
        is_short: Whether it is of a short path, [targets].
        num_records: Records behind the batch.
    """

    folded: Folded
    targets: list[Target]
    token_ids: list[int]
    weights: list[float]
    is_label: list[bool]
    is_short: list[bool]
    num_records: int


def teach(
    record: Record,
    codec: Codec,
    config: WarmstartConfig,
    justifications: Sequence[Justification],
    class_weight: float = 1.0,
) -> list[Taught]:
    """Return the sequences of one record.

    The label's first token has its own weight in either path; the tokens of a justification and of
    the reply's form share ``justification_weight`` equally. Several replies share both weights: the
    label's as they say, the justification's equally among those that are taught.

    Args:
        record: What is judged.
        codec: Of the model.
        config: Holds the weights; a label's weight of 0 leaves its path out.
        justifications: A reply for each; none for the short path alone.
        class_weight: Scales the labels' weights.
    """
    prompt = codec.prompt(record.example)
    label_weight = class_weight * config.label_weight
    taught = []
    if config.short_path_weight > 0:
        weight = class_weight * config.short_path_weight
        taught.append(_teach_label(prompt, codec.reply(None, record.label), weight, is_short=True))
    if label_weight > 0:
        num_taught = sum(each.is_taught for each in justifications)
        for each in justifications:
            reply = codec.reply(each.text, record.label)
            label = _teach_label(prompt, reply, label_weight * each.label_share)
            if not each.is_taught:
                taught.append(label)
                continue
            rest = [i for i in range(len(reply.tokens)) if i != reply.label_place]
            weight = config.justification_weight / num_taught / len(rest)
            weights = {len(prompt) + i: weight for i in rest} | label.weights
            taught.append(Taught([*prompt, *reply.tokens], label.label_place, weights))
    return taught


def _teach_label(
    prompt: Sequence[int], reply: ReplyTokens, weight: float, is_short: bool = False
) -> Taught:
    """Return a reply up to the label's first token, which alone is taught."""
    place = len(prompt) + reply.label_place
    tokens = [*prompt, *reply.tokens[: reply.label_place + 1]]
    return Taught(tokens, place, {place: weight}, is_short)


def group_records(
    records: Sequence[Record],
    codec: Codec,
    model: ModelConfig,
    config: WarmstartConfig,
    seed: int,
    justifications: Justifications,
) -> list[Group]:
    """Return the groups of all records; prompts over the budget are left out and counted.

    Args:
        records: Of the training part, in any order.
        codec: Of the model.
        model: Holds the budget of a prompt.
        config: Holds weights and the share of justified replies.
        seed: Decides which records teach a justification, and how large groups are cut.
        justifications: What replies to a record say first.

    Raises:
        DataError: Nothing is left to teach.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    class_weights = weigh_classes(records) if config.is_class_balanced else {}
    groups: list[Group] = []
    num_long = 0
    for pair in group_pairs(records).values():
        rng.shuffle(pair)
        lessons = []
        for record in pair:
            is_justified = rng.random() < config.justified_share
            num_prompt_tokens = len(codec.prompt(record.example))
            if num_prompt_tokens > model.max_prompt_tokens:
                num_long += 1
                continue
            said = justifications(record) if is_justified else ()
            class_weight = class_weights.get(_side(record), 1.0)
            taught = teach(record, codec, config, said, class_weight)
            if taught:
                lessons.append(_Lesson(num_prompt_tokens, taught, record.label))
        groups += _cut(pair[0].set_name, lessons)
    if num_long:
        text = "%d of %d records are left out: prompts over %d tokens (model.max_prompt_tokens)"
        logger.warning(text, num_long, len(records), model.max_prompt_tokens)
    if not groups:
        raise DataError(
            "there is nothing to teach: raise the weights in [warmstart] or model.max_prompt_tokens"
        )
    return groups


def weigh_classes(records: Sequence[Record]) -> dict[Side, float]:
    """Return the weight of each class in the originals and in the made rows of each set.

    Half over the share of the class, at most ``MAX_CLASS_WEIGHT``: each set says both classes
    alike, so that the kind of a text tells nothing about the class. A short right answer counts as
    an original, since the treatment takes it over from there.
    """
    counts = Counter(map(_side, records))
    weights = {}
    for side, count in counts.items():
        set_name, is_original, _ = side
        whole = sum(counts[set_name, is_original, label] for label in Label)
        weights[side] = min(MAX_CLASS_WEIGHT, whole / 2 / count)
    return weights


def _side(record: Record) -> Side:
    is_original = record.treatment in ORIGINAL_TREATMENTS or record.treatment == "short-right"
    return record.set_name, is_original, record.label


def _cut(set_name: str, lessons: Sequence[_Lesson]) -> list[Group]:
    """Return the lessons of a pair as groups of about ``MAX_GROUP_TOKENS`` at most."""
    groups: list[Group] = []
    part: list[_Lesson] = []
    size = 0
    for lesson in lessons:
        longest = max(len(taught.tokens) for taught in lesson.sequences)
        # Within a group, about half of a prompt stands in the others too.
        added = longest - (lesson.num_prompt_tokens // 2 if part else 0)
        if part and size + added > MAX_GROUP_TOKENS:
            groups.append(_join(set_name, part))
            part, size = [], 0
        part.append(lesson)
        size += added
    if part:
        groups.append(_join(set_name, part))
    return groups


def _join(set_name: str, lessons: Sequence[_Lesson]) -> Group:
    sequences = [taught for lesson in lessons for taught in lesson.sequences]
    return Group(set_name, sequences, len(lessons), frozenset(lesson.label for lesson in lessons))


def plan_batches(
    sizes: Sequence[int],
    batch_tokens: int,
    rng: random.Random,
    labels: Sequence[frozenset[Label]] | None = None,
) -> list[list[int]]:
    """Return an epoch's batches as lists of group numbers, each group once.

    Every batch holds both classes as far as the groups and their sizes permit it.

    Args:
        sizes: Distinct tokens of each group.
        batch_tokens: Upper limit of groups x longest group; a larger group is a batch of its own.
        rng: Shuffles.
        labels: Classes in each group; where None, nothing is asked of them.
    """
    order = list(range(len(sizes)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), _BUCKET):
        batch: list[int] = []
        for index in sorted(order[start : start + _BUCKET], key=lambda i: sizes[i]):
            # Sorted, so that this one is the longest.
            if batch and (len(batch) + 1) * sizes[index] > batch_tokens:
                batches.append(batch)
                batch = []
            batch.append(index)
        batches.append(batch)
    if labels is not None:
        _mix_classes(batches, sizes, batch_tokens, labels)
    rng.shuffle(batches)
    return batches


def _mix_classes(
    batches: list[list[int]],
    sizes: Sequence[int],
    batch_tokens: int,
    labels: Sequence[frozenset[Label]],
) -> None:
    """Swap groups of batches of one class for groups that others can spare, near ones first.

    Near batches hold groups of like size. Nothing is drawn: batches that hold both stay.
    """
    counts = [_count_labels(batch, labels) for batch in batches]
    for one in range(len(batches)):
        missing = set(Label) - counts[one].keys()
        if len(missing) != 1:
            continue
        (label,) = missing
        spare = [
            place
            for place, count in enumerate(counts)
            if count[label] > 1 or (count[label] and len(count) == 1)
        ]
        for other in sorted(spare, key=lambda place: abs(place - one)):
            swapped = _swap(batches[one], batches[other], label, sizes, batch_tokens, labels)
            if swapped is not None:
                for place, batch in zip((one, other), swapped, strict=True):
                    batches[place], counts[place] = batch, _count_labels(batch, labels)
                break


def _count_labels(batch: Sequence[int], labels: Sequence[frozenset[Label]]) -> Counter[Label]:
    return Counter(label for i in batch for label in labels[i])


def _swap(
    one: list[int],
    other: list[int],
    label: Label,
    sizes: Sequence[int],
    batch_tokens: int,
    labels: Sequence[frozenset[Label]],
) -> tuple[list[int], list[int]] | None:
    """Return both after a swap that gives one a group with the label; None where none fits."""

    def fits(batch: Sequence[int]) -> bool:
        return len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= batch_tokens

    for place, theirs in enumerate(other):
        if label not in labels[theirs] or (len(one) == 1 and len(labels[theirs]) < len(Label)):
            continue
        for own_place, own in enumerate(one):
            new = [*one[:own_place], theirs, *one[own_place + 1 :]]
            rest = [*other[:place], own, *other[place + 1 :]]
            if fits(new) and fits(rest):
                return new, rest
    return None


def make_batch(groups: Sequence[Group]) -> Batch:
    """Fold groups into one batch."""
    folded = fold([[taught.tokens for taught in group.sequences] for group in groups])
    batch = Batch(folded, [], [], [], [], [], sum(group.num_records for group in groups))
    for number, group in enumerate(groups):
        for sequence, taught in enumerate(group.sequences):
            for place, weight in taught.weights.items():
                batch.targets.append(Target(number, sequence, place))
                batch.token_ids.append(taught.tokens[place])
                batch.weights.append(weight)
                batch.is_label.append(place == taught.label_place)
                batch.is_short.append(taught.is_short)
    return batch
