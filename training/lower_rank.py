"""A trained adapter brought to a lower rank: fewer bytes for nearly the same policy."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peft import PeftModel


def lower_rank(model: PeftModel, rank: int) -> PeftModel:
    """Return the policy with the nearest adapter of a rank, by singular values of each layer.

    The truncated decomposition is the nearest matrix of its rank (Eckart and Young, 1936). What
    is lost is for the training that follows to repair.

    Args:
        model: Its adapter is taken off it.
        rank: At most that of the adapter now. The new one's alpha is the rank too: its scale is 1.
    """
    from peft import LoraConfig, convert_to_lora, get_peft_model, set_peft_model_state_dict

    with warnings.catch_warnings():
        # "There is typically no need for that": there is, here.
        warnings.filterwarnings("ignore", "Converting a PEFT adapter to LoRA that is already")
        _, weights = convert_to_lora(model, rank)
    old = model.peft_config["default"]
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,
        lora_dropout=old.lora_dropout,
        target_modules=old.target_modules,
        task_type=old.task_type,
    )
    policy: PeftModel = get_peft_model(model.unload(), config)
    set_peft_model_state_dict(policy, weights)
    return policy
