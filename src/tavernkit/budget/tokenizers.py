"""Tokenizers that work offline: the vocabularies come with ``splintr-rs`` and are loaded on first use."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tavernkit.budget.families import family_or_default
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from splintr import AnyTokenizer

TOKENIZER_NAMES = (
    "cl100k_base",
    "o200k_base",
    "gpt-oss",
    "llama2",
    "llama3",
    "codellama",
    "deepseek_v3",
    "qwen3",
    "gemma2",
    "gemma3",
    "gemma4",
    "mistral_v1",
    "mistral_v2",
    "mistral_v3",
    "glm4",
    "kimi_k2",
    "kimi_k3",
    "phi4",
    "olmo2",
)
"""The vocabularies that are always there."""

_ALIASES = {"o200k_harmony": "gpt-oss", "gpt_oss": "gpt-oss", "tekken": "mistral_v3"}
_BYTES_PER_ID = 4
_MARKER_LENGTH = 2


class Tokenizer(Protocol):
    """Turns text into token ids and back. Nothing in a text is a special token: all of it is ordinary text."""

    @property
    def name(self) -> str:
        """What it is called, such as ``cl100k_base``."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens; quicker than ``len(encode(text))``."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the token ids."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; bytes that are no UTF-8 become U+FFFD."""
        ...


class BundledTokenizer:
    """A tokenizer whose vocabulary is in the ``splintr-rs`` wheel. Get one with :func:`get_tokenizer`."""

    __slots__ = ("_core", "_flat", "_markers", "_ordinary", "name", "special_tokens")

    def __init__(self, name: str, core: AnyTokenizer, base_vocab_size: int) -> None:
        self.name = name
        self.special_tokens = frozenset(
            token for token, token_id in core.special_tokens().items() if token_id < base_vocab_size
        )
        """The model's own special tokens. In a text they are ordinary; programs that refuse such text look here."""
        self._core = core
        self._ordinary = core.encode_ordinary
        self._flat = core.encode_flat if core.family == "BPE" else None
        self._markers = tuple(sorted({token[:_MARKER_LENGTH] for token in core.special_tokens()}))

    def count(self, text: str) -> int:
        """Return the number of tokens."""
        # encode_flat makes no list of ids, which halves the time, but it takes special tokens for special: of
        # byte-level vocabularies we know them all, SentencePiece ones have more than they tell.
        if self._flat is None:
            return len(self.encode(text))
        try:
            for marker in self._markers:
                if marker in text:
                    return len(self.encode(text))
            return len(self._flat(text)) // _BYTES_PER_ID
        except TypeError:
            raise
        except UnicodeEncodeError:
            return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """Return the token ids."""
        try:
            return self._ordinary(text)
        except TypeError:
            raise
        except UnicodeEncodeError:
            return self._ordinary(without_lone_surrogates(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; bytes that are no UTF-8 become U+FFFD, an id outside the vocabulary is an error."""
        try:
            return self._core.decode(ids)
        except TypeError:
            raise
        except (ValueError, OverflowError):
            return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Return what one token stands for."""
        try:
            return self._core.decode_token_bytes(token_id)
        except TypeError:
            raise
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{self.name} has no token {token_id}", code="UNKNOWN_TOKEN") from error

    def has_special_token(self, text: str) -> bool:
        """Tell whether a text spells out one of the model's own special tokens."""
        return any(marker in text for marker in self._markers) and any(token in text for token in self.special_tokens)

    def __repr__(self) -> str:
        return f"BundledTokenizer({self.name!r})"


_loaded: dict[str, BundledTokenizer] = {}
_loading = threading.Lock()


def get_tokenizer(name: str) -> BundledTokenizer:
    """Return a bundled tokenizer by name (:data:`TOKENIZER_NAMES`); it is loaded once for the whole process."""
    found = _loaded.get(name)
    if found is not None:
        return found
    name = _ALIASES.get(name, name)
    if name not in TOKENIZER_NAMES:
        raise ConfigError(f"no tokenizer {name!r}: pass one of {', '.join(TOKENIZER_NAMES)}", code="UNKNOWN_TOKENIZER")
    with _loading:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def tokenizer_for_model(model: str | None) -> BundledTokenizer:
    """Return the tokenizer of a model, or ``cl100k_base`` for models that are not known."""
    return get_tokenizer(family_or_default(model).tokenizer)


def without_lone_surrogates(text: str) -> str:
    """Replace what is no character (half a surrogate pair, as broken JSON escapes leave behind) by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(name: str) -> BundledTokenizer:
    import splintr

    return BundledTokenizer(name, splintr.Tokenizer.from_pretrained(name), splintr.base_vocab_size(name))
