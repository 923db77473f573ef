"""A chat model of two random layers with a small tokenizer, in transformers' own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contract.labels import Label
from contract.prompt import INSTRUCTIONS
from contract.reply import REPLY_MARK

START, END = "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_tiny_model(folder: Path, seed: int = 1) -> Path:
    """Write weights, configuration, generation settings and tokenizer; return the folder."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    end = tokenizer.convert_tokens_to_ids(END)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        # Ten times the usual: else all logits are alike, and rounding decides between the classes.
        initializer_range=0.2,
        bos_token_id=tokenizer.convert_tokens_to_ids(START),
        eos_token_id=end,
        pad_token_id=end,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    # As instruct models come: sampling and a penalty that serving must not take over.
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.7,
        top_p=0.8,
        repetition_penalty=1.05,
        eos_token_id=[end, end - 1],
        pad_token_id=end,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer() -> Any:
    """Return the tokenizer: byte-level pairs, learned from the contract's own words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|endoftext|>", START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    verdicts = [f"Justified.\n{REPLY_MARK} {label}" for label in Label]
    tokenizer.train_from_iterator([INSTRUCTIONS, *verdicts] * 2, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        unk_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=4096,
    )
