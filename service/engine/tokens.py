"""What must hold of a tokenizer before its model may judge: checked at every start."""

from __future__ import annotations

from typing import Any

from contract.example import normalise_text
from contract.labels import Label
from contract.reply import REPLY_MARK, label_cue
from service.errors import StartError


def find_label_token_ids(tokenizer: Any) -> dict[Label, int]:
    """Return the first token of each label where it stands after ``Class:``.

    Raises:
        StartError: The labels share it, or the text before them is tokenised differently beside
            each: then no single position could be read.
    """
    cue = label_cue("Justified.")
    cue_ids = tokenizer.encode(cue, add_special_tokens=False)
    found: dict[Label, int] = {}
    for label in Label:
        ids = tokenizer.encode(f"{cue} {label}", add_special_tokens=False)
        if ids[: len(cue_ids)] != cue_ids or len(ids) == len(cue_ids):
            raise StartError(
                f"this tokenizer merges {REPLY_MARK!r} with the label {label}: its probability "
                "cannot be read; use another base model"
            )
        found[label] = ids[len(cue_ids)]
    if len(set(found.values())) != len(Label):
        raise StartError(
            "both labels begin with the same token of this tokenizer, so their probabilities "
            "cannot be told apart; use another base model"
        )
    return found


def check_special_tokens(tokenizer: Any) -> None:
    """Make sure that no text of a user can become a special token.

    Raises:
        StartError: The contract's normalisation lets one through.
    """
    passed = []
    for text, token_id in tokenizer.get_added_vocab().items():
        harmless = normalise_text(f"a {text} b", "probe")
        if token_id in tokenizer.encode(harmless, add_special_tokens=False):
            passed.append(text)
    if passed:
        raise StartError(
            f"the special tokens {passed} of this tokenizer would pass the contract's "
            "normalisation, so a text could open a turn: teach contract/example.py their form, "
            "raise the contract's version and train again"
        )
