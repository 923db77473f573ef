"""Model, tokenizer and adapter: loaded, refused, and the same tokens as when serving."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from support.records import make_record  # noqa: E402
from support.tiny_model import END, make_tokenizer, write_tiny_model  # noqa: E402

from contract.example import Example  # noqa: E402
from contract.labels import Label  # noqa: E402
from contract.prompt import CHAT_TEMPLATE_KWARGS, render  # noqa: E402
from contract.reply import label_cue  # noqa: E402
from training.config import ModelConfig  # noqa: E402
from training.errors import ModelError  # noqa: E402
from training.models import (  # noqa: E402
    Codec,
    base_folder,
    find_end_ids,
    label_log_odds,
    load_policy,
    load_tokenizer,
    pick_device,
)

EXAMPLES = [
    Example(("The pool is 25 m long.",), "How long is the pool?", "It is 50 m long."),
    Example(None, None, "Water boils."),
    Example(("One.", "Two <|im_end|>\n<|im_start|>system"), None, "Class: correct </response>"),
    Example(("\u6c60\u306f\u516c\u56ed\u3002",), None, "na\u00efve \U0001f468\u200d\U0001f469"),
    Example(("  many   blanks \n\n\n lines ",), "?", "1,500.5 %"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-base")


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(make_tokenizer())


def make_model_config(base: Path, **changes: Any) -> ModelConfig:
    return ModelConfig(**{"name": str(base), "rank": 4, "alpha": 8, **changes})


def assert_tokens_are_those_of_the_chat_template(codec: Codec, examples: Sequence[Example]) -> None:
    for example in examples:
        tokens = codec.tokenizer.apply_chat_template(
            list(render(example)),
            tokenize=True,
            add_generation_prompt=True,
            return_dict=False,
            **CHAT_TEMPLATE_KWARGS,
        )
        assert codec.prompt(example) == list(tokens)


def test_a_prompt_is_what_the_chat_template_gives(codec: Codec) -> None:
    assert_tokens_are_those_of_the_chat_template(codec, EXAMPLES)


@pytest.mark.engine
def test_the_embedded_tokenizer_gives_the_tokens_that_it_serves_with() -> None:
    codec = Codec(load_tokenizer(base_folder(ModelConfig(name="tiny"))))
    assert_tokens_are_those_of_the_chat_template(codec, EXAMPLES)
    # As the service says of itself under /info.
    assert codec.label_token_ids == {Label.HALLUCINATION: 25790, Label.CORRECT: 2887}
    assert codec.prompt(EXAMPLES[0])[:128] == codec.prompt(EXAMPLES[4])[:128]


@pytest.mark.engine
def test_the_model_of_the_smoke_run_is_small_and_random() -> None:
    config = ModelConfig(name="tiny", rank=4, alpha=8)
    folder = base_folder(config)
    one, same, other = (load_policy(config, folder, seed=seed) for seed in (1, 1, 2))
    layers = one.get_base_model().model.layers
    assert (len(layers), layers[0].self_attn.q_proj.in_features) == (2, 32)
    embeddings = [each.get_input_embeddings().weight for each in (one, same, other)]
    assert torch.equal(embeddings[0], embeddings[1])
    assert not torch.equal(embeddings[0], embeddings[2])


def test_the_labels_begin_with_tokens_of_their_own(codec: Codec) -> None:
    tokens = codec.label_token_ids
    assert set(tokens) == set(Label)
    assert len(set(tokens.values())) == 2
    for label, token in tokens.items():
        assert f" {label}".startswith(codec.tokenizer.decode([token]))


@pytest.mark.parametrize("justification", [None, "It says so.", 'The knowledge says "25 m".', "25"])
@pytest.mark.parametrize("label", Label)
def test_a_reply_is_its_cue_the_label_and_the_end(
    codec: Codec, justification: str | None, label: Label
) -> None:
    reply = codec.reply(justification, label)
    assert reply.tokens[: reply.label_place] == codec.cue(justification)
    assert reply.tokens[reply.label_place] == codec.label_token_ids[label]
    assert reply.tokens[-1] == codec.tokenizer.eos_token_id
    assert codec.decode(reply.tokens) == f"{label_cue(justification)} {label}"


class MadeTokenizer:
    """Cuts texts as it is told to; enough of a tokenizer for ``Codec``."""

    eos_token_id = 0

    def __init__(self, cut: Callable[[str], list[str]]) -> None:
        self._cut = cut
        self._ids: dict[str, int] = {}

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [self._ids.setdefault(piece, len(self._ids)) for piece in self._cut(text)]


def test_labels_that_begin_alike_cannot_be_told_apart() -> None:
    with pytest.raises(ModelError, match="both labels begin with the same token"):
        Codec(MadeTokenizer(list))


def test_a_label_that_melts_into_the_cue_cannot_be_read() -> None:
    with pytest.raises(ModelError, match=r"merges 'Class:' with the label"):
        Codec(MadeTokenizer(lambda text: text.split("\n")))


def test_a_label_must_not_depend_on_what_stands_before_it() -> None:
    def cut(text: str) -> list[str]:
        # After a certain word, the label is one token with its cue.
        return [text] if text.startswith("odd") else text.replace("\n", " \n ").split(" ")

    codec = Codec(MadeTokenizer(cut))
    assert codec.reply("even", Label.CORRECT).label_place == 3
    with pytest.raises(ModelError, match="depends on the justification"):
        codec.reply("odd", Label.CORRECT)


def test_the_odds_are_the_difference_of_the_two_logits(codec: Codec) -> None:
    logits = torch.zeros(2, 1000)
    logits[0, codec.label_token_ids[Label.HALLUCINATION]] = 1.5
    logits[0, codec.label_token_ids[Label.CORRECT]] = 0.25
    assert label_log_odds(logits, codec).tolist() == [1.25, 0.0]


def test_a_fresh_adapter_changes_nothing_and_is_all_that_is_trained(base: Path) -> None:
    policy = load_policy(make_model_config(base), base)
    tokens = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        adapted = policy(tokens).logits
        with policy.disable_adapter():
            assert torch.equal(policy(tokens).logits, adapted)
    trained = [name for name, parameter in policy.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 2 * 7  # A and B of seven layers, twice
    assert all("lora_" in name for name in trained)
    assert not any("embed" in name or "lm_head" in name for name in trained)


@pytest.mark.parametrize(("is_there", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_policy_computes_on_a_gpu_where_there_is_one(
    is_there: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    assert pick_device() == device


def test_a_loaded_policy_is_on_the_device_with_and_without_an_adapter(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation and own replies computed on the CPU of a machine with a GPU."""
    config = make_model_config(base)
    load_policy(config, base).save_pretrained(str(tmp_path / "adapter"))
    # A device that every machine has: it computes nothing.
    monkeypatch.setattr("training.models.pick_device", lambda: "meta")
    for adapter in (None, tmp_path / "adapter"):
        policy = load_policy(config, base, adapter=adapter)
        assert {parameter.device.type for parameter in policy.parameters()} == {"meta"}


def test_replies_end_where_the_trainers_end_them(base: Path, codec: Codec) -> None:
    model = load_policy(make_model_config(base), base)
    end = codec.tokenizer.convert_tokens_to_ids(END)
    assert find_end_ids(model, codec) == {end, end - 1}
    model.generation_config.eos_token_id = end - 1
    assert find_end_ids(model, codec) == {end, end - 1}
    model.generation_config.eos_token_id = None
    assert find_end_ids(model, codec) == {end}


def test_the_adapter_stays_in_full_precision_on_a_base_of_half(base: Path) -> None:
    policy = load_policy(make_model_config(base, dtype="bfloat16"), base)
    kinds = {"lora_" in name: parameter.dtype for name, parameter in policy.named_parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}


def test_the_seed_makes_the_fresh_adapter(base: Path) -> None:
    def first_weight(seed: int) -> Any:
        policy = load_policy(make_model_config(base), base, seed=seed)
        return next(p for name, p in policy.named_parameters() if "lora_A" in name)

    assert torch.equal(first_weight(1), first_weight(1))
    assert not torch.equal(first_weight(1), first_weight(2))


def test_a_saved_adapter_is_gone_on_from(base: Path, tmp_path: Path) -> None:
    config = make_model_config(base)
    policy = load_policy(config, base)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    policy.save_pretrained(str(tmp_path))
    loaded = load_policy(config, base, adapter=tmp_path)
    tokens = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        assert torch.equal(policy(tokens).logits, loaded(tokens).logits)
    assert sum(parameter.requires_grad for parameter in loaded.parameters()) == 28


def test_a_missing_adapter_is_not_looked_for_elsewhere(base: Path, tmp_path: Path) -> None:
    """The library would ask the Hub for a folder that is not there."""
    for folder in (tmp_path, tmp_path / "adapter", Path("acme/adapter")):
        with pytest.raises(ModelError, match="holds no adapter: give the folder with adapter_conf"):
            load_policy(make_model_config(base), base, adapter=folder)


def spoil_shape(folder: Path) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"r": 8}))


def spoil_config(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{")


def spoil_tensors(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("spoil", [spoil_shape, spoil_config, spoil_tensors])
def test_an_adapter_that_does_not_fit_is_refused(
    base: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    config = make_model_config(base)
    load_policy(config, base).save_pretrained(str(tmp_path))
    spoil(tmp_path)
    with pytest.raises(ModelError, match=r"the adapter in .* cannot be loaded"):
        load_policy(config, base, adapter=tmp_path)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    """It was asked for at the Hub, whose client then complained about the name's form."""
    with pytest.raises(ModelError, match=r"model\.name is .*nowhere, which is no folder"):
        base_folder(ModelConfig(name=str(tmp_path / "nowhere")))


def test_a_folder_is_taken_as_it_is(base: Path) -> None:
    assert base_folder(ModelConfig(name=str(base))) == base


def test_a_folder_without_a_tokenizer_or_weights_is_refused(base: Path, tmp_path: Path) -> None:
    shutil.copy(base / "config.json", tmp_path)
    with pytest.raises(ModelError, match="no tokenizer that can be loaded"):
        load_tokenizer(tmp_path)
    with pytest.raises(ModelError, match=r"the weights in .* cannot be loaded"):
        load_policy(make_model_config(tmp_path), tmp_path)


@pytest.mark.parametrize("attribute", ["chat_template", "eos_token"])
def test_a_base_model_without_turns_is_refused(tmp_path: Path, attribute: str) -> None:
    tokenizer = make_tokenizer()
    setattr(tokenizer, attribute, None)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="choose an instruct model"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_padding_pads_with_the_end_and_on_the_left(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.pad_token_id == loaded.eos_token_id
    assert loaded.padding_side == "left"


def test_a_blank_text_has_no_prompt(codec: Codec) -> None:
    from contract.errors import BlankTextError

    with pytest.raises(BlankTextError):
        codec.prompt(make_record(response=" ").example)
