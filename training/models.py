"""The model that is trained: its base folder, its tokenizer, its adapter, and its tokens.

The base is ``embedded`` (what the service embeds, without this project's adapter), ``tiny`` (two
random layers, for the smoke run), a folder, or a repository of the Hub at a full commit.
"""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contract.example import Example
from contract.labels import Label
from contract.prompt import CHAT_TEMPLATE_KWARGS, render
from contract.reply import REPLY_MARK, label_cue
from training.errors import ModelError
from training.evidence import write_reply

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from training.config import ModelConfig

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
TINY = "tiny"


def base_folder(config: ModelConfig) -> Path:
    """Return a folder with the base weights, fetched or prepared where it is not there yet.

    Raises:
        ModelError: It cannot be had; the message says what to do.
    """
    if config.name in (EMBEDDED, TINY):
        return _embedded_folder()
    if not config.is_on_hub:
        folder = Path(config.name)
        if not folder.is_dir():
            raise ModelError(f"model.name is {folder}, which is no folder: correct the path")
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(config.name, revision=config.revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"{config.name} at {config.revision} cannot be fetched ({error}): check name and "
            "revision, the network, and for a gated model `hf auth login`"
        ) from error


@functools.cache
def _embedded_folder() -> Path:
    """Ask the service, in a process of its own: training shares the contract with it, no code."""
    command = [sys.executable, "-m", "service.fetch", "--base"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)  # noqa: S603
    if done.returncode:
        raise ModelError("the embedded model could not be prepared, see above")
    return Path(done.stdout.strip())


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the folder's tokenizer, which must know the end of a turn.

    Raises:
        ModelError: There is none, or it has no chat template or no end token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{folder} holds no tokenizer that can be loaded ({error}): copy the model's "
            "tokenizer files there"
        ) from error
    if tokenizer.chat_template is None or tokenizer.eos_token_id is None:
        raise ModelError(f"{folder} has no chat template or end token: choose an instruct model")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    return tokenizer


def load_policy(
    config: ModelConfig, folder: Path, adapter: Path | None = None, seed: int = 1
) -> PeftModel:
    """Return the base model with a trainable LoRA adapter on all its linear layers.

    The embeddings and the head stay out: they are one tied tensor in small models, and an adapter
    on it does not survive merging (transformers issue 45127). The adapter computes in float32,
    whatever the base's type.

    Args:
        config: Of the model.
        folder: From ``base_folder``.
        adapter: A trained adapter to go on from; else a fresh one, which changes nothing yet.
        seed: Of a fresh adapter, and of the tiny model.

    Returns:
        The policy on ``pick_device``: not every stage has a trainer that would move it.

    Raises:
        ModelError: The weights or the adapter cannot be loaded.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors import SafetensorError

    torch.manual_seed(seed)
    try:
        model = _load_base(config, folder)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"the weights in {folder} cannot be loaded: {error}") from error
    if adapter is not None:
        return _load_adapter(model, adapter).to(pick_device())
    lora = LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        use_rslora=config.is_rslora,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    # Drawn on the CPU and moved then, so that a seed gives one and the same adapter everywhere.
    policy: PeftModel = get_peft_model(model, lora)
    return policy.to(pick_device())


def pick_device() -> str:
    """Return where a policy computes: on the GPU if torch sees one, which ROCm calls cuda too."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def find_end_ids(model: PreTrainedModel, codec: Codec) -> set[int]:
    """Return the tokens that end a reply, as TRL's trainers and vLLM have them.

    They are the tokenizer's own and those of the model's generation settings.
    """
    settings = model.generation_config
    own = None if settings is None else settings.eos_token_id
    listed = own if isinstance(own, list) else [own]
    return {int(token) for token in (codec.tokenizer.eos_token_id, *listed) if token is not None}


def _load_adapter(model: PreTrainedModel, adapter: Path) -> PeftModel:
    from peft import PeftModel
    from safetensors import SafetensorError

    # Without this file peft would look for the adapter on the Hub.
    if not (adapter / "adapter_config.json").is_file():
        raise ModelError(
            f"{adapter} holds no adapter: give the folder with adapter_config.json that a finished "
            "stage has left"
        )
    try:
        policy: PeftModel = PeftModel.from_pretrained(model, adapter, is_trainable=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"the adapter in {adapter} cannot be loaded: {error}. It belongs to another model, or "
            "its files are cut off"
        ) from error
    return policy


def _load_base(config: ModelConfig, folder: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    dtype = getattr(torch, config.dtype)
    if config.name != TINY:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        return model
    sizes = AutoConfig.from_pretrained(folder)
    sizes.hidden_size, sizes.intermediate_size, sizes.num_hidden_layers = 32, 64, 2
    sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim = 4, 2, 8
    sizes.layer_types = None
    tiny: PreTrainedModel = AutoModelForCausalLM.from_config(sizes, dtype=dtype)
    return tiny


@dataclass(frozen=True, slots=True)
class ReplyTokens:
    """A reply as the policy is taught to write it.

    Attributes:
        tokens: Up to and with the end of the turn.
        label_place: Which of them decides the class: the label's first token.
    """

    tokens: list[int]
    label_place: int


class Codec:
    """Examples and replies as token ids, the same in training as in serving.

    Attributes:
        tokenizer: Of the model.
        label_token_ids: First token of each label, in its place after ``Class:``.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that the two labels begin with different tokens of their own.

        Raises:
            ModelError: They do not, so no probability could be read.
        """
        self.tokenizer = tokenizer
        self.label_token_ids = {label: self._label_token(label_cue("x."), label) for label in Label}
        if len(set(self.label_token_ids.values())) != len(Label):
            raise ModelError("both labels begin with the same token: choose another model")

    def prompt(self, example: Example) -> list[int]:
        """Return the token ids that end where the reply begins.

        Raises:
            TextError: A text of the example is blank or invalid.
        """
        text = self.tokenizer.apply_chat_template(
            list(render(example)),
            tokenize=False,
            add_generation_prompt=True,
            **CHAT_TEMPLATE_KWARGS,
        )
        return self._encode(str(text))

    def reply(self, justification: str | None, label: Label) -> ReplyTokens:
        """Return a whole reply's token ids.

        Raises:
            ModelError: The label's first token melts into what stands before it.
        """
        before = self.cue(justification)
        place = len(before)
        tokens = self._encode(write_reply(justification, label))
        if tokens[: place + 1] != [*before, self.label_token_ids[label]]:
            raise ModelError("the label's first token depends on the justification")
        return ReplyTokens([*tokens, int(self.tokenizer.eos_token_id or 0)], place)

    def cue(self, justification: str | None) -> list[int]:
        """Return the token ids of a reply up to where the label is read."""
        return self._encode(label_cue(justification))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a reply, without the tokens that end it."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _label_token(self, cue: str, label: Label) -> int:
        before, tokens = self._encode(cue), self._encode(f"{cue} {label}")
        if tokens[: len(before)] != before or len(tokens) == len(before):
            raise ModelError(
                f"this tokenizer merges {REPLY_MARK!r} with the label {label}: choose another model"
            )
        return tokens[len(before)]

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def label_log_odds(logits: torch.Tensor, codec: Codec) -> torch.Tensor:
    """Return log P(hallucination) - log P(correct) from logits [..., vocabulary]."""
    ids = codec.label_token_ids
    return logits[..., ids[Label.HALLUCINATION]] - logits[..., ids[Label.CORRECT]]
