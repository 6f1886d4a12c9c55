"""Write a byte-level tokenizer into a directory: one token per byte, nothing downloaded.

Runs inside the engine's environment, which has ``tokenizers`` and ``transformers``: ``make_tokenizer.py DIRECTORY``.
"""

from __future__ import annotations

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-not-found, unused-ignore]
from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found, unused-ignore]


def write_byte_tokenizer(directory: str) -> None:
    """Save a BPE tokenizer without merges: its vocabulary is the 256 bytes and the beginning and end marks."""
    marks = {"bos_token": "<s>", "eos_token": "</s>"}
    tokens = [*marks.values(), *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(directory)


if __name__ == "__main__":
    write_byte_tokenizer(sys.argv[1])
