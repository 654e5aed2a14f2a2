"""Estimates token counts: fast, deterministic, and never raises.

What a provider's chat template adds to a prompt is learnt from reported usage.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import TypeAlias, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, LRUCache, thaw_object
from tavernkit.budget._adapters import (
    Adapter,
    HeuristicAdapter,
    ModelAdapter,
    RegistryEntry,
    TokenizerRegistry,
    file_paths,
    look_up,
)
from tavernkit.budget._file_tokenizer import Tokenization, load_file_tokenizer
from tavernkit.budget._limits import (
    ESTIMATE_CACHE_CHARACTERS,
    ESTIMATE_CACHE_SIZE,
    LONG_TEXT_CHARACTERS,
    MODEL_CACHE_SIZE,
)
from tavernkit.errors import ConfigError, Warn, log_warning

_Key: TypeAlias = "tuple[str | None, str | tuple[bytes, int]]"


class CountCache:
    """Token counts of recently used texts, by model; bounded in entries and in characters. Thread-safe.

    Short texts are their own key, which makes a hit as fast as a dict lookup; long ones are identified by a digest.
    """

    def __init__(self, max_size: int, max_characters: int = ESTIMATE_CACHE_CHARACTERS) -> None:
        self._max_size = max_size
        self._max_characters = max_characters
        self._characters = 0
        self._counts: OrderedDict[_Key, int] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, model_hint: str | None, text: str) -> int | None:
        """Return the count of a text; None if it is not cached."""
        key = _key(model_hint, text)
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                self._counts.move_to_end(key)
            return count

    def put(self, model_hint: str | None, text: str, count: int) -> None:
        """Remember the count of a text."""
        key = _key(model_hint, text)
        with self._lock:
            if key not in self._counts:
                self._characters += len(key[1])
            self._counts[key] = count
            while len(self._counts) > self._max_size or self._characters > self._max_characters:
                oldest, _ = self._counts.popitem(last=False)
                self._characters -= len(oldest[1])

    def __len__(self) -> int:
        return len(self._counts)


def _key(model_hint: str | None, text: str) -> _Key:
    if len(text) <= LONG_TEXT_CHARACTERS:
        return model_hint, text
    data = text.encode("utf-8", "surrogatepass")
    return model_hint, (hashlib.blake2b(data, digest_size=16).digest(), len(text))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreloadFailure:
    """A tokenizer file that could not be loaded."""

    path: str
    """The file."""
    error_class: str
    """The class of the error."""
    message: str
    """What went wrong."""


@dataclass(frozen=True, slots=True)
class PreloadResult:
    """Which tokenizer files were loaded ahead of use."""

    loaded: tuple[str, ...]
    """Paths of the files that were loaded."""
    failed: tuple[PreloadFailure, ...]
    """The files that could not be loaded."""


class TokenEstimator:
    """Counts tokens for any model, offline.

    Tokens are counted as ``registry`` says, else by ``default`` (the bundled tokenizer of the model's family).
    If that fails, the default is tried, then characters divided by four; each failure is reported once.

    Args:
        registry: Tokenizers by model.
        default: Counts for models that are not in the registry.
        warn: Called with each warning; by default they are logged.
        cache_size: How many counts are remembered.
    """

    def __init__(
        self,
        *,
        registry: TokenizerRegistry | None = None,
        default: Adapter | None = None,
        warn: Warn = log_warning,
        cache_size: int = ESTIMATE_CACHE_SIZE,
    ) -> None:
        self._registry = registry
        self._default: Adapter = default or ModelAdapter()
        self._heuristic = HeuristicAdapter()
        self._warn = warn
        self._counts = CountCache(cache_size)
        self._choices: LRUCache[str, tuple[Adapter, RegistryEntry | None]] = LRUCache(MODEL_CACHE_SIZE)
        self._reported: LRUCache[str, bool] = LRUCache(MODEL_CACHE_SIZE)

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of a text. Never raises because of the text.

        Args:
            text: The text.
            model_hint: The model to count for.
        """
        if not text:
            return 0
        count = self._counts.get(model_hint, text)
        if count is None:
            count = self._try(model_hint, lambda adapter: adapter.estimate(text, model_hint), 0)
            self._counts.put(model_hint, text, count)
        return count

    def tokenize(self, text: str, model_hint: str | None = None) -> Tokenization:
        """Return the tokens of a text, in as much detail as the backend provides. Never raises because of the text.

        Args:
            text: The text.
            model_hint: The model to count for.
        """
        nothing = Tokenization(backend="heuristic", token_count=0)
        result = self._try(model_hint, lambda adapter: adapter.tokenize(text, model_hint), nothing)
        _, entry = self._choice(model_hint)
        if entry is None:
            return result
        return replace(result, details=_with_entry(thaw_object(result.details), entry, model_hint))

    def describe(self, model_hint: str | None = None) -> JsonObject:
        """Say how tokens are counted for a model. Never raises."""
        unknown: JsonObject = {"backend": "heuristic"}
        description = self._try(model_hint, lambda adapter: adapter.describe(model_hint), unknown)
        _, entry = self._choice(model_hint)
        return description if entry is None else _with_entry(description, entry, model_hint)

    def preload(self, *, strict: bool = False) -> PreloadResult:
        """Load every tokenizer file of the registry now instead of at the first estimate.

        In strict mode a file that cannot be loaded is an error.

        Raises:
            ConfigError: A file cannot be loaded, in strict mode.
        """
        loaded: list[str] = []
        failed: list[PreloadFailure] = []
        for path in file_paths(self._registry):
            try:
                load_file_tokenizer(path)
            except (OSError, ValueError) as error:
                failed.append(PreloadFailure(path, type(error).__name__, str(error)))
            else:
                loaded.append(path)
        if strict and failed:
            what = "; ".join(f"{failure.path}: {failure.message}" for failure in failed)
            raise ConfigError(f"tokenizer files cannot be loaded: {what}", code="TOKENIZER_NOT_LOADED")
        return PreloadResult(tuple(loaded), tuple(failed))

    def _choice(self, model_hint: str | None) -> tuple[Adapter, RegistryEntry | None]:
        if self._registry is None or not model_hint:
            return self._default, None
        return self._choices.get_or_make(model_hint, lambda: self._choose(model_hint))

    def _choose(self, model_hint: str) -> tuple[Adapter, RegistryEntry | None]:
        try:
            entry = None if self._registry is None else look_up(self._registry, model_hint)
        except Exception as error:  # noqa: BLE001  # the registry is the caller's code: it must not stop a build
            self._report(f"the tokenizer registry failed for {model_hint!r}: {type(error).__name__}: {error}")
            entry = None
        adapter = None if entry is None else entry.adapter()
        return adapter or self._default, entry

    def _try(self, model_hint: str | None, count: Callable[[Adapter], T], otherwise: T) -> T:
        chosen, _ = self._choice(model_hint)
        fallbacks = (self._heuristic,) if chosen is self._default else (self._default, self._heuristic)
        for adapter in (chosen, *fallbacks):
            try:
                return count(adapter)
            except Exception as error:  # noqa: BLE001  # whatever a backend does wrong, an estimate is still needed
                self._report(
                    f"{type(adapter).__name__} cannot count tokens for {model_hint!r}: {type(error).__name__}: {error}"
                )
        return otherwise

    def _report(self, message: str) -> None:
        if self._reported.get(message) is None:
            self._reported.put(message, True)
            self._warn(message)


@cache
def default_estimator() -> TokenEstimator:
    """Return the shared default estimator."""
    return TokenEstimator()


def count_tokens(text: str, model: str | None = None) -> int:
    """Return the number of tokens of a text for a model (``cl100k_base`` for unknown models).

    Args:
        text: The text to count.
        model: The model's name.
    """
    return default_estimator().estimate(text, model)


def _with_entry(description: JsonObject, entry: RegistryEntry, model_hint: str | None) -> JsonObject:
    return {"source": "registry", **description, **entry.describe(model_hint or "")}


@dataclass(frozen=True, slots=True)
class UsageSample:
    """One request: its estimated tokens, and the prompt tokens that the provider billed."""

    message_count: int
    """How many messages the request had."""
    estimated_tokens: int
    """Tokens of their contents, as estimated."""
    prompt_tokens: int
    """Tokens that the provider counted."""


@dataclass(frozen=True, slots=True)
class OverheadProfile:
    """Tokens a provider adds to each message and once to each request."""

    per_message: int = 0
    """Tokens added to every message."""
    per_request: int = 0
    """Tokens added once."""

    @classmethod
    def fit(cls, samples: Iterable[UsageSample]) -> OverheadProfile:
        """Find the profile that explains the samples best, rounded up so that budgets stay on the safe side.

        Samples of different lengths separate the two parts; otherwise everything counts as per message.
        """
        listed = list(samples)
        points = [(s.message_count, s.prompt_tokens - s.estimated_tokens) for s in listed if s.message_count > 0]
        if not points:
            return cls()
        counts, extras = zip(*points, strict=True)
        if len(set(counts)) == 1:
            return cls(per_message=_safe(sum(extras) / sum(counts)))
        from statistics import linear_regression  # slow to import

        slope, intercept = linear_regression(counts, extras)
        if slope < 0 or intercept < 0:
            return cls(per_message=_safe(sum(extras) / sum(counts)))
        return cls(per_message=_safe(slope), per_request=_safe(intercept))

    def total(self, message_count: int) -> int:
        """Return the tokens added to a request with this many messages."""
        return self.per_request + self.per_message * message_count


OPENAI_OVERHEAD = OverheadProfile(per_message=4, per_request=3)
"""OpenAI's chat models: three tokens and the role for each message, three to start the reply."""


def _safe(tokens: float) -> int:
    return max(0, math.ceil(round(tokens, 6)))
