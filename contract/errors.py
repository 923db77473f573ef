"""Everything that can be wrong with a text, a reply or a manifest.

Messages never repeat the text at fault: they go to users and logs as they are.
"""

from __future__ import annotations


class ContractError(Exception):
    """Base of all errors of the contract."""


class TextError(ContractError):
    """A field of an example cannot be judged.

    Args:
        field: The field at fault, such as ``response`` or ``knowledge[1]``.
        reason: What is wrong with it, as a clause that follows the field's name.
    """

    def __init__(self, field: str, reason: str) -> None:
        """Name the field and the reason."""
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


class BlankTextError(TextError):
    """A field is empty, or holds nothing but blanks and invisible characters."""


class InvalidTextError(TextError):
    """A field is not text to read: it holds a lone surrogate, or piles of combining marks."""


class UnreadableReplyError(ContractError):
    """A model's reply does not end in exactly one well-formed verdict."""


class ManifestError(ContractError):
    """A ``contract.json`` cannot be read, or lacks a value that it must have."""


class ContractMismatchError(ManifestError):
    """Weights were trained under another contract than the one in this code."""
