"""A tiny but complete tokenizer.json, written out for tests."""

from __future__ import annotations

import json
from pathlib import Path

VOCABULARY = ["<unk>", "Ġ", "a", "b", "h", "i", "t", "e", "r", "hi", "th", "the", "er", "Ġthe"]
MERGES = [["h", "i"], ["t", "h"], ["th", "e"], ["e", "r"], ["Ġ", "the"]]


def write_tokenizer(path: Path) -> Path:
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": True,
                },
                "post_processor": None,
                "decoder": {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": True,
                },
                "model": {
                    "type": "BPE",
                    "dropout": None,
                    "unk_token": None,
                    "continuing_subword_prefix": None,
                    "end_of_word_suffix": None,
                    "fuse_unk": False,
                    "byte_fallback": False,
                    "vocab": {token: index for index, token in enumerate(VOCABULARY)},
                    "merges": MERGES,
                },
            }
        ),
        encoding="utf-8",
    )
    return path
