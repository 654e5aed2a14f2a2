"""Tokenizers from a local Hugging Face ``tokenizer.json``, which may be compressed. Nothing is ever downloaded."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from tavernkit._values import LRUCache, is_object
from tavernkit.budget._limits import FILE_TOKENIZER_CACHE_SIZE, MAX_TOKENIZER_FILE_BYTES
from tavernkit.budget._tokenization import Tokenization
from tavernkit.budget._tokenizers import count_in_parts, encode_in_parts, without_lone_surrogates


class FileTokenizer:
    """A loaded ``tokenizer.json``. Special tokens are not added.

    If the ``tokenizers`` package is installed, it is used and also gives tokens and offsets; ``splintr-rs``, which is
    always installed, gives ids only.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = str(path)
        self._encode, self._decode = _load(Path(path))

    def count(self, text: str) -> int:
        """Return the number of tokens."""
        return count_in_parts(text, lambda part: len(self._encode(part).ids))

    def encode(self, text: str) -> list[int]:
        """Return the token ids; a very long text is split into parts, at whose ends ids may differ."""
        return encode_in_parts(text, lambda part: self._encode(part).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text."""
        return self._decode(list(ids))

    def tokenize(self, text: str) -> Tokenization:
        """Return ids, and tokens and offsets if the backend provides them."""
        ids, tokens, offsets = self._encode(text)
        return Tokenization(
            backend="hf_tokenizers",
            token_count=len(ids),
            ids=ids,
            tokens=tokens,
            offsets=offsets,
            details={"tokenizer_path": self.name},
        )


class _Encoded(NamedTuple):
    ids: list[int]
    tokens: list[str] | None = None
    offsets: list[tuple[int, int]] | None = None


_Codec = tuple[Callable[[str], _Encoded], Callable[[list[int]], str]]

_cache: LRUCache[str, FileTokenizer | Exception] = LRUCache(FILE_TOKENIZER_CACHE_SIZE)


def load_file_tokenizer(path: str | os.PathLike[str]) -> FileTokenizer:
    """Return the tokenizer of a file, loaded once; raises ``OSError`` or ``ValueError`` (failures are cached too)."""
    found = _cache.get_or_make(str(path), lambda: _load_or_error(path))
    if isinstance(found, FileTokenizer):
        return found
    raise found.with_traceback(None)


def forget_file_tokenizers() -> None:
    """Drop cached files and failures, after files have changed on disk."""
    _cache.clear()


def _load_or_error(path: str | os.PathLike[str]) -> FileTokenizer | Exception:
    try:
        return FileTokenizer(path)
    except (OSError, ValueError) as error:
        return error


def _load(path: Path) -> _Codec:
    data = _content(path)
    try:
        value: object = json.loads(data)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    if not is_object(value):
        raise ValueError(f"{path} is not a tokenizer.json: it is not a JSON object")
    if importlib.util.find_spec("tokenizers") is not None:
        return _huggingface_codec(path, data)
    return splintr_codec(data)


def _content(path: Path) -> bytes:
    """Return a file's content, unpacked if it is a ``.gz``."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            data = file.read(MAX_TOKENIZER_FILE_BYTES + 1)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be unpacked: {error}") from None
    if len(data) > MAX_TOKENIZER_FILE_BYTES:
        raise ValueError(f"{path} has more than {MAX_TOKENIZER_FILE_BYTES:,} bytes (MAX_TOKENIZER_FILE_BYTES)")
    return data


def splintr_codec(data: bytes) -> _Codec:
    """Read a ``tokenizer.json`` without the ``tokenizers`` package."""
    import splintr

    core = splintr.from_json_bytes(data)
    return lambda text: _Encoded(core.encode_raw(without_lone_surrogates(text))), core.decode


class _Encoding(Protocol):
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]


class _HuggingFaceTokenizer(Protocol):
    def encode(self, sequence: str, *, add_special_tokens: bool) -> _Encoding: ...

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str: ...


def _huggingface_codec(path: Path, data: bytes) -> _Codec:
    package = importlib.import_module("tokenizers")
    try:
        tokenizer = cast("_HuggingFaceTokenizer", package.Tokenizer.from_buffer(data))
    except Exception as error:  # the binding raises bare Exception
        raise ValueError(f"{path} cannot be loaded: {error}") from error

    def encode(text: str) -> _Encoded:
        encoding = tokenizer.encode(without_lone_surrogates(text), add_special_tokens=False)
        return _Encoded(encoding.ids, encoding.tokens, encoding.offsets)

    return encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
