"""What a configuration says about its data: the sets, what is done to them, how they are split."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from contract.labels import Label
from training.config_fields import Commit, Name, Positive, Repo, Section, Share, say_how_to_pin


class SetConfig(Section):
    """One data set."""

    name: Name
    """How it is called in reports."""
    kind: Literal["folder", "hub", "file", "made"]
    """A file of `--data-dir`, a data set on the Hub, your own file, or rows made by the seed."""
    file: str | None = Field(default=None, min_length=1)
    """Its name in `--data-dir` (folder), or its path: JSONL, CSV or Parquet (file)."""
    repo: Repo | None = None
    """`org/name` on the Hub (hub)."""
    config: str | None = Field(default=None, min_length=1)
    """Which of the data set's configurations (hub)."""
    split: str | None = Field(default=None, min_length=1)
    """Which of its splits (hub)."""
    revision: Commit | None = None
    """Its commit on the Hub, 40 hex digits (hub)."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Field of a record -> the column that holds it (file)."""
    labels: dict[str, Label] = Field(default_factory=dict)
    """Value of the label's column -> class (file)."""
    task: str = Field(default="qa", min_length=1)
    """`qa`, `summarization`, `dialogue` or `general`, or your own word."""
    max_pairs: int | None = Field(default=None, ge=1)
    """Pairs to use, chosen by the seed, all where unset; pairs to make (made)."""
    rows_per_pair: int | None = Field(default=None, ge=2)
    """Most rows of a pair that a warm start teaches, chosen by the seed, both classes alike."""
    repeat: Positive = 1.0
    """How often the training part is seen in an epoch."""

    @model_validator(mode="after")
    def _check_kind(self) -> SetConfig:
        needed = {
            "folder": ("file",),
            "hub": ("repo", "split"),
            "file": ("file", "columns"),
            "made": ("max_pairs",),
        }
        missing = [key for key in needed[self.kind] if not self.model_dump()[key]]
        if missing:
            raise ValueError(f"a set of kind {self.kind!r} needs {' and '.join(missing)}")
        if self.kind == "hub" and self.revision is None:
            raise ValueError(say_how_to_pin(f"datasets/{self.repo}"))
        return self


class TreatmentConfig(Section):
    """What is done to the training data so that style does not tell the class."""

    is_on: bool = True
    """Off: the rows as they are, all switches below notwithstanding."""
    punctuation: bool = True
    """Even out the full stop at the end."""
    short_wrong: bool = True
    """Add short wrong responses."""
    long_right: bool = True
    """Add long right responses."""
    length_matched: bool = True
    """Mark and add pairs of equal length."""
    perturbed_claims: int = Field(default=0, ge=0, le=64)
    """Claims made by rule from the knowledge, for each pair."""
    raw_share: Share = 1.0
    """Share of the raw rows that is kept."""


class DataConfig(Section):
    """Which examples, in which form."""

    mode: Literal["knowledge", "no-knowledge", "paired"] = "knowledge"
    """With knowledge, without, or with it and only pairs that hold both classes."""
    sets: tuple[SetConfig, ...] = Field(min_length=1)
    """The data sets."""
    treatment: TreatmentConfig = TreatmentConfig()
    """Against shortcuts."""
    validation_fraction: float = Field(default=0.05, gt=0, lt=1)
    """Share of the pairs that is watched during training."""
    test_fraction: float = Field(default=0.1, gt=0, lt=1)
    """Share of the pairs that no training touches."""

    @model_validator(mode="after")
    def _check_together(self) -> DataConfig:
        held_out = self.validation_fraction + self.test_fraction
        if held_out >= 1:
            raise ValueError(
                f"validation_fraction + test_fraction hold out {held_out:g} of the pairs: lower one"
            )
        made = [each.name for each in self.sets if each.kind == "made"]
        if made and self.mode == "no-knowledge":
            raise ValueError(
                f'mode = "no-knowledge" leaves nothing of {", ".join(made)}: what is made is '
                "true or false by its knowledge alone; take the set out"
            )
        names = [each.name for each in self.sets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sets are named {', '.join(twice)}: give each its own name")
        return self
