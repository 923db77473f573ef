"""The warm start's trainer: transformers' own loop over batches of folded sequences.

Imported inside functions only, since it imports torch and transformers itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, SequentialSampler
from transformers import Trainer

from contract.labels import Label
from training.models import Codec, label_log_odds
from training.supervision import Batch, Group, make_batch
from training.tries import target_logits


class PlannedBatches(Dataset[Batch]):  # type: ignore[misc]  # its types are not followed
    """The batches of all epochs, in the order in which they are trained on."""

    def __init__(self, groups: Sequence[Group], plan: Sequence[Sequence[int]]) -> None:
        """Take the groups and, for each step, their numbers."""
        self._groups = groups
        self._plan = plan

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._plan)

    def __getitem__(self, step: int) -> Batch:
        """Fold the groups of one step."""
        return make_batch([self._groups[i] for i in self._plan[step]])


class SupervisedTrainer(Trainer):  # type: ignore[misc]  # its types are not followed
    """Minimises the weighted cross-entropy of the taught tokens, averaged over records."""

    def __init__(self, codec: Codec, **arguments: Any) -> None:
        """Take what ``Trainer`` takes, the batches as ``train_dataset``."""
        super().__init__(**arguments, data_collator=lambda batches: {"batch": batches[0]})
        self._codec = codec
        self._right: dict[str, list[bool]] = {}

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        # The plan is shuffled already, and a resumed run must go on in it.
        return SequentialSampler(self.train_dataset)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Batch],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Return the loss of one batch, a float32 scalar."""
        batch = inputs["batch"]
        logits = target_logits(model, batch.folded, batch.targets)
        device = logits.device
        ids = torch.tensor(batch.token_ids, device=device)
        weights = torch.tensor(batch.weights, device=device)
        losses = cross_entropy(logits, ids, reduction="none")
        with torch.no_grad():
            says_hallucination = label_log_odds(logits, self._codec) >= 0
            is_hallucination = ids == self._codec.label_token_ids[Label.HALLUCINATION]
            is_right = (says_hallucination == is_hallucination).tolist()
        for right, label, short in zip(is_right, batch.is_label, batch.is_short, strict=True):
            if label:
                name = "train_short_path_accuracy" if short else "train_accuracy"
                self._right.setdefault(name, []).append(right)
        return (losses * weights).sum() / batch.num_records

    def log(self, logs: dict[str, float], *arguments: Any) -> None:
        """Add the shares of right labels since the last time, with and without justification."""
        if "loss" in logs:
            for name, right in self._right.items():
                logs[name] = sum(right) / len(right)
            self._right.clear()
        super().log(logs, *arguments)
