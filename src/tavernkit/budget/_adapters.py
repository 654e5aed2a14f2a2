"""How an estimator counts: by the model's tokenizer, by a local file, by tiktoken, or by rule of thumb.

A registry of tokenizers says which of them counts for a model.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol, TypeAlias, cast, runtime_checkable

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, LRUCache, is_mapping
from tavernkit.budget._file_tokenizer import Tokenization, byte_token_offsets, load_file_tokenizer
from tavernkit.budget._limits import MAX_PART_CHARACTERS, MODEL_CACHE_SIZE
from tavernkit.budget._tokenizers import (
    DEFAULT_TOKENIZER,
    TOKENIZER_NAMES,
    Family,
    count_in_parts,
    family_or_default,
    get_tokenizer,
)

DEFAULT_CHARS_PER_TOKEN = 4.0
"""The usual rule of thumb for English."""


class Adapter(Protocol):
    """One way to count tokens. An adapter may raise: the estimator then tries the next."""

    def estimate(self, text: str, model_hint: str | None) -> int:
        """Return the number of tokens.

        Args:
            text: The text to count.
            model_hint: The model whose tokens are counted, if it is known.
        """
        ...

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        """Return the tokens, in as much detail as available.

        Args:
            text: The text to split.
            model_hint: The model whose tokens they are, if it is known.
        """
        ...

    def describe(self, model_hint: str | None) -> JsonObject:
        """Describe how tokens are counted; ``backend`` is always set."""
        ...


class ModelAdapter:
    """Counts with the bundled tokenizer of the model's family, or always with a given one."""

    def __init__(self, tokenizer: str | None = None) -> None:
        self._fixed = None if tokenizer is None else Family(tokenizer)

    def estimate(self, text: str, model_hint: str | None) -> int:
        """Return the number of tokens."""
        return get_tokenizer(self._family(model_hint).tokenizer).count(text)

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        """Return ids and the text of each token, and offsets if the tokens are byte-level.

        Of a very long text only the count is returned.
        """
        tokenizer = get_tokenizer(self._family(model_hint).tokenizer)
        if len(text) > MAX_PART_CHARACTERS:
            return Tokenization(backend="splintr", token_count=tokenizer.count(text), details=self.describe(model_hint))
        ids = tokenizer.encode(text)
        pieces = [tokenizer.token_bytes(token_id) for token_id in ids]
        return Tokenization(
            backend="splintr",
            token_count=len(ids),
            ids=ids,
            tokens=[piece.decode("utf-8", "replace") for piece in pieces],
            offsets=byte_token_offsets(text, pieces),
            details=self.describe(model_hint),
        )

    def describe(self, model_hint: str | None) -> JsonObject:
        """Return the encoding, whether the model determined it, and whether it is the model's own."""
        family = self._family(model_hint)
        known = family.exact or family.tokenizer != DEFAULT_TOKENIZER
        return {
            "backend": "splintr",
            "encoding": family.tokenizer,
            "exact": family.exact,
            "source": "model" if known else "default",
        }

    def _family(self, model_hint: str | None) -> Family:
        return self._fixed or family_or_default(model_hint)


class FileAdapter:
    """Counts with a local ``tokenizer.json``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)

    def estimate(self, text: str, model_hint: str | None) -> int:
        """Return the number of tokens."""
        return load_file_tokenizer(self.path).count(text)

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        """Return ids, tokens and character offsets; of a very long text the count."""
        if len(text) > MAX_PART_CHARACTERS:
            count = self.estimate(text, model_hint)
            return Tokenization(backend="hf_tokenizers", token_count=count, details=self.describe(model_hint))
        return load_file_tokenizer(self.path).tokenize(text)

    def describe(self, model_hint: str | None) -> JsonObject:
        """Name the file."""
        return {"backend": "hf_tokenizers", "tokenizer_path": self.path}


class HeuristicAdapter:
    """Divides the number of characters. An invalid ratio becomes ``DEFAULT_CHARS_PER_TOKEN``."""

    def __init__(self, chars_per_token: object = DEFAULT_CHARS_PER_TOKEN) -> None:
        self.chars_per_token = _ratio(chars_per_token)

    def estimate(self, text: str, model_hint: str | None) -> int:
        """Return the number of tokens."""
        return math.ceil(len(text) / self.chars_per_token)

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        """Return only the count; there are no tokens to show."""
        return Tokenization(
            backend="heuristic", token_count=self.estimate(text, model_hint), details=self.describe(model_hint)
        )

    def describe(self, model_hint: str | None) -> JsonObject:
        """Name the ratio."""
        return {"backend": "heuristic", "chars_per_token": self.chars_per_token}


class TiktokenAdapter:
    """Counts with the ``tiktoken`` package, which downloads its vocabularies on first use."""

    def __init__(self) -> None:
        self._chosen: LRUCache[str, tuple[_TiktokenEncoding, str]] = LRUCache(MODEL_CACHE_SIZE)

    def estimate(self, text: str, model_hint: str | None) -> int:
        """Return the number of tokens."""
        encode = self._encoding(model_hint)[0].encode_ordinary
        return count_in_parts(text, lambda part: len(encode(part)))

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        """Return ids; of a very long text the count."""
        if len(text) > MAX_PART_CHARACTERS:
            count = self.estimate(text, model_hint)
            return Tokenization(backend="tiktoken", token_count=count, details=self.describe(model_hint))
        ids = self._encoding(model_hint)[0].encode_ordinary(text)
        return Tokenization(backend="tiktoken", token_count=len(ids), ids=ids, details=self.describe(model_hint))

    def describe(self, model_hint: str | None) -> JsonObject:
        """Return the encoding, and whether the model determined it."""
        encoding, source = self._encoding(model_hint)
        return {"backend": "tiktoken", "encoding": encoding.name, "source": source}

    def _encoding(self, model_hint: str | None) -> tuple[_TiktokenEncoding, str]:
        return self._chosen.get_or_make(model_hint or "", lambda: _tiktoken_encoding(model_hint))


class _TiktokenEncoding(Protocol):
    name: str

    def encode_ordinary(self, text: str) -> list[int]: ...


class _Tiktoken(Protocol):
    def encoding_for_model(self, model_name: str) -> _TiktokenEncoding: ...

    def get_encoding(self, encoding_name: str) -> _TiktokenEncoding: ...


def _tiktoken_encoding(model_hint: str | None) -> tuple[_TiktokenEncoding, str]:
    tiktoken = cast("_Tiktoken", importlib.import_module("tiktoken"))
    if model_hint:
        try:
            return tiktoken.encoding_for_model(model_hint), "model"
        except KeyError:
            pass  # tiktoken does not know the model
    return tiktoken.get_encoding(DEFAULT_TOKENIZER), "default"


def _ratio(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return DEFAULT_CHARS_PER_TOKEN
    try:
        ratio = float(value)
    except ValueError:
        return DEFAULT_CHARS_PER_TOKEN
    return ratio if math.isfinite(ratio) and ratio > 0 else DEFAULT_CHARS_PER_TOKEN


_FILE_FAMILIES = frozenset({"hf_tokenizers", "huggingface_tokenizers", "tokenizers"})
_GLOB_CHARACTERS = frozenset("*?[")


@runtime_checkable
class LooksUp(Protocol):
    """An application's own registry."""

    def lookup(self, model_hint: str, /) -> object:
        """Return the entry for a model (a mapping), or None."""
        ...


TokenizerRegistry: TypeAlias = Mapping[str, object] | LooksUp | Callable[[str], object]
"""Model name or glob to entry; or an object with ``lookup(model)``; or a function.

An entry is a mapping: ``tokenizer_family`` (``heuristic``, ``hf_tokenizers``, or a bundled tokenizer's name; anything
else is the default), ``tokenizer_path``, ``chars_per_token``, ``source_hint``, ``source_repo``.
"""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """What a registry says about one model."""

    tokenizer_family: str | None = None
    """``heuristic``, ``hf_tokenizers``, or the name of a bundled tokenizer; anything else means the default."""
    tokenizer_path: str | None = None
    """The ``tokenizer.json`` of an ``hf_tokenizers`` entry."""
    chars_per_token: object = None
    """Characters per token for ``heuristic``."""
    source_hint: str | None = None
    """The name of the tokenizer, for descriptions."""
    source_repo: str | None = None
    """Where the tokenizer file comes from, for descriptions."""

    @classmethod
    def parse(cls, raw: object) -> RegistryEntry | None:
        """Read an entry; keys may be in any case and with hyphens. Returns None for anything but a mapping."""
        if not is_mapping(raw):
            return None
        fields = {str(key).strip().lower().replace("-", "_"): value for key, value in raw.items()}
        family = _text(fields.get("tokenizer_family"))
        return cls(
            tokenizer_family=family and family.lower().replace("-", "_"),
            tokenizer_path=_text(fields.get("tokenizer_path")),
            chars_per_token=fields.get("chars_per_token"),
            source_hint=_text(fields.get("source_hint")),
            source_repo=_text(fields.get("source_repo")),
        )

    def adapter(self) -> Adapter | None:
        """Return the adapter for the entry; None means the default."""
        if self.tokenizer_family == "heuristic":
            return HeuristicAdapter(self.chars_per_token)
        if self.tokenizer_family in _FILE_FAMILIES and self.tokenizer_path:
            return FileAdapter(self.tokenizer_path)
        for name in TOKENIZER_NAMES:
            if self.tokenizer_family == name.replace("-", "_"):
                return ModelAdapter(name)
        return None

    def describe(self, model_hint: str) -> JsonObject:
        """Return what the entry adds to an estimator's description."""
        parts = {
            "registry_tokenizer_family": self.tokenizer_family,
            "registry_tokenizer_path": self.tokenizer_path,
            "registry_source_hint": self.source_hint,
            "registry_source_repo": self.source_repo,
            "registry_model_hint": model_hint.strip(),
        }
        return {"registry": True, **{key: value for key, value in parts.items() if value}}


def look_up(registry: TokenizerRegistry, model_hint: str) -> RegistryEntry | None:
    """Return the entry for a model: the exact name first, then the first glob that matches."""
    if is_mapping(registry):
        return RegistryEntry.parse(_look_up_mapping(registry, model_hint))
    if isinstance(registry, LooksUp):
        return RegistryEntry.parse(registry.lookup(model_hint))
    if callable(registry):
        return RegistryEntry.parse(registry(model_hint))
    return None


def file_paths(registry: TokenizerRegistry | None) -> list[str]:
    """Return every tokenizer file of a mapping registry, without duplicates, in order."""
    if not is_mapping(registry):
        return []
    adapters = (entry.adapter() for entry in map(RegistryEntry.parse, registry.values()) if entry is not None)
    return list(dict.fromkeys(adapter.path for adapter in adapters if isinstance(adapter, FileAdapter)))


def _look_up_mapping(registry: Mapping[str, object], model_hint: str) -> object:
    if model_hint in registry:
        return registry[model_hint]
    for pattern, entry in registry.items():
        if not _GLOB_CHARACTERS.isdisjoint(pattern) and fnmatchcase(model_hint, pattern):
            return entry
    return None


def _text(value: object) -> str | None:
    text = "" if value is None else str(value).strip()
    return text or None
