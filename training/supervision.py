"""From labelled records to supervised batches: which tokens are taught, and with which weight.

Each record gives up to two sequences: the short path (the verdict line alone) and the whole reply
(justification, then the verdict line). The records of a pair form a group, whose common tokens are
computed once (``training/tries.py``).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from training.config import ModelConfig, WarmstartConfig
from training.evidence import justify
from training.models import Codec
from training.records import Record
from training.tries import Folded, Target, fold

logger = logging.getLogger(__name__)

Justify = Callable[[Record], str]

MAX_GROUP_TOKENS = 1536
"""A text with many responses is cut into several groups: attention grows with the square."""

_BUCKET = 256
"""Groups that are sorted by length together, so that batches hold rows of like length."""


@dataclass(frozen=True, slots=True)
class Taught:
    """A sequence with the tokens that are taught.

    Attributes:
        tokens: Prompt and reply.
        label_place: Place of the label's first token.
        weights: Place -> weight of its cross-entropy.
    """

    tokens: list[int]
    label_place: int
    weights: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that share knowledge.

    Attributes:
        set_name: Where they come from.
        sequences: What is taught.
        num_records: Records behind them.
    """

    set_name: str
    sequences: list[Taught]
    num_records: int

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
        weights: Of their cross-entropies, [targets]; they sum to about 1 over a record.
        is_label: Whether a target is a label's first token, [targets].
        num_records: Records behind the batch.
    """

    folded: Folded
    targets: list[Target]
    token_ids: list[int]
    weights: list[float]
    is_label: list[bool]
    num_records: int


def teach(
    record: Record,
    codec: Codec,
    config: WarmstartConfig,
    justification: str | None,
) -> list[Taught]:
    """Return the sequences of one record.

    The tokens of a justification and of the reply's form share ``justification_weight`` equally;
    the label's first token has its own weight in either path.

    Args:
        record: What is judged.
        codec: Of the model.
        config: Holds the weights; a weight of 0 leaves the path out.
        justification: What to teach as such; None to teach the short path alone.
    """
    prompt = codec.prompt(record.example)
    paths = [(None, config.short_path_weight)]
    if justification is not None:
        paths.append((justification, config.label_weight))
    taught = []
    for text, label_weight in paths:
        if label_weight == 0:
            continue
        reply = codec.reply(text, record.label)
        # The short path is only ever asked for the label: nothing else of it is taught.
        rest = (
            [] if text is None else [i for i in range(len(reply.tokens)) if i != reply.label_place]
        )
        weights = {len(prompt) + i: config.justification_weight / len(rest) for i in rest}
        place = len(prompt) + reply.label_place
        weights[place] = label_weight
        tokens = reply.tokens if text is not None else reply.tokens[: reply.label_place + 1]
        taught.append(Taught([*prompt, *tokens], place, weights))
    return taught


def group_records(
    records: Sequence[Record],
    codec: Codec,
    model: ModelConfig,
    config: WarmstartConfig,
    seed: int,
    justification: Justify = lambda record: justify(record.example),
) -> list[Group]:
    """Return the groups of all records; prompts over the budget are left out and counted.

    Args:
        records: Of the training part, in any order.
        codec: Of the model.
        model: Holds the budget of a prompt.
        config: Holds weights and the share of justified replies.
        seed: Decides which records teach a justification, and how large groups are cut.
        justification: What to teach for a record.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    pairs: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        pairs.setdefault((record.set_name, record.pair_id), []).append(record)
    groups, num_long = [], 0
    for pair in pairs.values():
        rng.shuffle(pair)
        sequences: list[Taught] = []
        num_records = size = 0
        for record in pair:
            text = justification(record) if rng.random() < config.justified_share else None
            taught = teach(record, codec, config, text)
            length = len(codec.prompt(record.example))
            if length > model.max_prompt_tokens:
                num_long += 1
                continue
            added = max(len(each.tokens) for each in taught) - (length // 2 if sequences else 0)
            if sequences and size + added > MAX_GROUP_TOKENS:
                groups.append(Group(pair[0].set_name, sequences, num_records))
                sequences, num_records, size = [], 0, 0
            sequences.extend(taught)
            num_records += 1
            size += added
        if sequences:
            groups.append(Group(pair[0].set_name, sequences, num_records))
    if num_long:
        logger.warning(
            "%d of %d records have prompts over %d tokens and are left out "
            "(model.max_prompt_tokens)",
            num_long,
            len(records),
            model.max_prompt_tokens,
        )
    return groups


def plan_batches(sizes: Sequence[int], batch_tokens: int, rng: random.Random) -> list[list[int]]:
    """Return an epoch's batches as lists of group numbers, each group once.

    Args:
        sizes: Distinct tokens of each group.
        batch_tokens: Upper limit of groups x longest group; a larger group is a batch of its own.
        rng: Shuffles.
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
    rng.shuffle(batches)
    return batches


def make_batch(groups: Sequence[Group]) -> Batch:
    """Fold groups into one batch."""
    folded = fold([[taught.tokens for taught in group.sequences] for group in groups])
    batch = Batch(folded, [], [], [], [], sum(group.num_records for group in groups))
    for number, group in enumerate(groups):
        for sequence, taught in enumerate(group.sequences):
            for place, weight in taught.weights.items():
                batch.targets.append(Target(number, sequence, place))
                batch.token_ids.append(taught.tokens[place])
                batch.weights.append(weight)
                batch.is_label.append(place == taught.label_place)
    return batch
