"""The registry of tokenizers by model, for estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol, TypeAlias, runtime_checkable

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping
from tavernkit.budget._adapters import Adapter, FileAdapter, HeuristicAdapter, ModelAdapter
from tavernkit.budget._tokenizers import TOKENIZER_NAMES

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
