"""Tokenizers from a local Hugging Face ``tokenizer.json``, which may be compressed. Nothing is ever downloaded."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, LRUCache, is_object, thaw_object
from tavernkit.budget._limits import FILE_TOKENIZER_CACHE_SIZE, MAX_TOKENIZER_FILE_BYTES
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


def installed_file(package: str, place: str) -> Path | None:
    """Return a file that an installed package brings, without importing the package.

    Args:
        package: The package.
        place: The file's path in it.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # it is broken
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    return next((path for folder in folders or () if (path := Path(folder, place)).is_file()), None)


CLAUDE_FILE = ("litellm", "litellm_core_utils/tokenizers/anthropic_tokenizer.json")
"""A package that many programs have anyway, and Claude's vocabulary in it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenization:
    """The tokens of a text, in as much detail as the backend provides.

    ``offsets`` are character positions (start, end) of each token; a token that is only part of a character spans it.
    """

    backend: str
    """The name of the tokenizer or of the estimator's class."""
    token_count: int
    """How many tokens the text has."""
    ids: Sequence[int] | None = None
    """The token ids, if the backend provides them."""
    tokens: Sequence[str] | None = None
    """The text of each token, if the backend provides it."""
    offsets: Sequence[tuple[int, int]] | None = None
    details: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Other information about the backend."""

    @property
    def detailed(self) -> bool:
        """True if there is more than a number."""
        return self.ids is not None or self.tokens is not None or self.offsets is not None

    def to_dict(self) -> JsonObject:
        """Everything that is known, ready for ``json``."""
        plain: JsonObject = {"backend": self.backend, "token_count": self.token_count}
        if self.ids is not None:
            plain["ids"] = list(self.ids)
        if self.tokens is not None:
            plain["tokens"] = list(self.tokens)
        if self.offsets is not None:
            plain["offsets"] = [[start, end] for start, end in self.offsets]
        if self.details:
            plain["details"] = thaw_object(self.details)
        return plain


def byte_token_offsets(text: str, pieces: Sequence[bytes]) -> list[tuple[int, int]] | None:
    """Return the character span of each byte-level token; None if the tokens do not match the text."""
    data = text.encode("utf-8", "replace")
    if b"".join(pieces) != data:
        return None
    # character_at[i] is the index of the character that byte i belongs to.
    character_at = [0] * (len(data) + 1)
    index = -1
    for position, byte in enumerate(data):
        if byte & 0xC0 != 0x80:
            index += 1
        character_at[position] = index
    character_at[len(data)] = index + 1
    spans: list[tuple[int, int]] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        spans.append((character_at[start], character_at[end - 1] + 1 if piece else character_at[start]))
        start = end
    return spans
