"""What the sections of a configuration share: their base and the types of their fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
REPO_PATTERN = r"^[\w-][\w.-]*/[\w-][\w.-]*$"
Repo = Annotated[str, StringConstraints(pattern=REPO_PATTERN)]
# A branch or a tag moves: only a commit says which weights or rows a run had.
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


def say_how_to_pin(repo: str) -> str:
    """Return what a configuration without a commit is told; ``repo`` as in the Hub's addresses."""
    return (
        "revision is missing: 40 hex digits, the first word of "
        f"`git ls-remote https://huggingface.co/{repo} HEAD`"
    )


class Section(BaseModel):
    """A table of the configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )
