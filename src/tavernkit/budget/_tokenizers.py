"""Tokenizers that work offline, and which of them a model uses.

The vocabularies come with ``splintr-rs`` and are loaded on first use.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from tavernkit._dataclass import dataclass
from tavernkit.budget._limits import CACHED_TEXT_CHARACTERS, CACHED_TEXTS, MAX_PART_CHARACTERS, MODEL_CACHE_SIZE
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
"""The vocabularies that are always available."""

WORD_VOCABULARIES = frozenset({"llama2", "codellama", "mistral_v1", "mistral_v2"})
"""SentencePiece vocabularies in which a space can only begin a token and a line feed is a separate token, so that a
text costs as much as its words."""

_ALIASES = {"o200k_harmony": "gpt-oss", "gpt_oss": "gpt-oss", "tekken": "mistral_v3"}
_BYTES_PER_ID = 4
_MARKER_LENGTH = 2
_SPACE_MARK = "\u2581"
_WORD_ENDS = re.compile("(?<=[^ ]) ")


class Tokenizer(Protocol):
    """Turns text into token ids and back. Special tokens in a text count as ordinary text."""

    @property
    def name(self) -> str:
        """The name, such as ``cl100k_base``."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens; faster than ``len(encode(text))``."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the token ids."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; bytes that are not UTF-8 become U+FFFD."""
        ...


class BundledTokenizer:
    """A tokenizer whose vocabulary is in the ``splintr-rs`` wheel. Get one with ``get_tokenizer()``.

    Args:
        name: The vocabulary's name.
        core: The tokenizer of ``splintr-rs``.
        base_vocab_size: Special tokens with ids from here on are not the model's own.
    """

    __slots__ = ("_core", "_flat", "_lines", "_markers", "_ordinary", "name", "special_tokens")

    def __init__(self, name: str, core: AnyTokenizer, base_vocab_size: int) -> None:
        self.name = name
        self.special_tokens = frozenset(
            token for token, token_id in core.special_tokens().items() if token_id < base_vocab_size
        )
        """The model's own special tokens. Texts that contain them are ordinary text; programs can refuse such texts."""
        self._core = core
        self._ordinary = core.encode_ordinary
        self._flat = core.encode_flat if core.family == "BPE" else None
        self._lines = _LineCounts(self._count_part) if name in WORD_VOCABULARIES else None
        self._markers = tuple(sorted({token[:_MARKER_LENGTH] for token in core.special_tokens()}))

    def count(self, text: str) -> int:
        """Return the number of tokens."""
        if self._lines is not None:
            return self._lines.count(text)
        if len(text) > MAX_PART_CHARACTERS:
            return count_in_parts(text, self._count_part)
        return self._count_part(text)

    def _count_part(self, text: str) -> int:
        # encode_flat makes no list of ids, which halves the time, but it recognises special tokens: in
        # byte-level vocabularies we know them all; SentencePiece vocabularies do not list all of theirs.
        if self._flat is None:
            return len(self.encode(text))
        try:
            for marker in self._markers:
                if marker in text:
                    return len(self.encode(text))
            return len(self._flat(text)) // _BYTES_PER_ID
        except UnicodeEncodeError:
            return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """Return the token ids; a very long text is split into parts, at whose ends ids may differ."""
        if len(text) > MAX_PART_CHARACTERS:
            return encode_in_parts(text, self.encode)
        try:
            return self._ordinary(text)
        except UnicodeEncodeError:
            return self._ordinary(without_lone_surrogates(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; bytes that are not UTF-8 become U+FFFD, an id outside the vocabulary is an error."""
        try:
            return self._core.decode(ids)
        except (ValueError, OverflowError):
            return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token.

        Raises:
            ConfigError: There is no such token.
        """
        try:
            return self._core.decode_token_bytes(token_id)
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{self.name} has no token {token_id}", code="UNKNOWN_TOKEN") from error

    def has_special_token(self, text: str) -> bool:
        """Return True if a text spells out one of the model's own special tokens."""
        return any(marker in text for marker in self._markers) and any(token in text for token in self.special_tokens)

    def __repr__(self) -> str:
        return f"BundledTokenizer({self.name!r})"


class _LineCounts(dict[str, int]):
    """Counts a text line by line and word by word, and caches both, because chats are sent again and again.

    That is exact for ``WORD_VOCABULARIES``. SentencePiece puts a space before a text and then writes spaces as
    marks; no token has a mark after another character, so no token spans the end of a word, and a single word gets the
    space that it had in the text. Text after a line feed has no space before it, so the line feed is counted with it.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        super().__init__()
        self._count = count
        self._words = _WordCounts(count)

    def count(self, text: str) -> int:
        """Return the number of tokens."""
        if _SPACE_MARK in text:  # it represents a space and would be cut off
            return count_in_parts(text, self._count)
        if "\n" not in text:
            return self._words.count(text)
        first, *others = text.split("\n")
        return (self._words.count(first) if first else 1) + sum(map(self.__getitem__, others))

    def __missing__(self, line: str) -> int:
        """Count a new line and the line feed before it, without the space that is added before a text."""
        count = self._words.count("\n" + line) - 1
        return _remember(self, line, count)


class _WordCounts(dict[str, int]):
    def __init__(self, count: Callable[[str], int]) -> None:
        super().__init__()
        self._count = count

    def count(self, line: str) -> int:
        if line[:1] != " " and line[-1:] != " " and "  " not in line:
            return sum(map(self.__getitem__, line.split(" "))) if line else 0
        words = _WORD_ENDS.split(line)  # of several spaces the first ends a word, the others belong to the next
        ends_in_space = len(words) > 1 and not words[-1]
        return sum(map(self.__getitem__, words[:-1] if ends_in_space else words)) + ends_in_space

    def __missing__(self, word: str) -> int:
        return _remember(self, word, count_in_parts(word, self._count))


def _remember(counts: dict[str, int], text: str, count: int) -> int:
    if len(text) <= CACHED_TEXT_CHARACTERS:
        if len(counts) >= CACHED_TEXTS:
            counts.clear()
        counts[text] = count
    return count


def count_in_parts(text: str, count: Callable[[str], int]) -> int:
    """Return the number of tokens of a text; if it is very long, of its parts, which may have one more or less each.

    Tokenizers take more than a hundred bytes per character, and end the process if there are none.
    """
    return count(text) if len(text) <= MAX_PART_CHARACTERS else sum(map(count, _parts(text)))


def encode_in_parts(text: str, encode: Callable[[str], list[int]]) -> list[int]:
    """Return the token ids of a text; if it is very long, of its parts, as in ``count_in_parts()``."""
    if len(text) <= MAX_PART_CHARACTERS:
        return encode(text)
    return [token_id for part in _parts(text) for token_id in encode(part)]


def _parts(text: str) -> Iterator[str]:
    """Cut a text before spaces, where most vocabularies have no tokens, or anywhere if there are none."""
    start = 0
    while len(text) - start > MAX_PART_CHARACTERS:
        latest = start + MAX_PART_CHARACTERS
        space = text.rfind(" ", start + MAX_PART_CHARACTERS // 2, latest)
        end = latest if space < 0 else space
        yield text[start:end]
        start = end
    yield text[start:]


_loaded: dict[str, BundledTokenizer] = {}
_loading = threading.Lock()


def get_tokenizer(name: str) -> BundledTokenizer:
    """Return a bundled tokenizer by name (``TOKENIZER_NAMES``); it is loaded once for the whole process.

    Raises:
        ConfigError: There is no tokenizer with this name.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    name = _ALIASES.get(name, name)
    if name not in TOKENIZER_NAMES:
        raise ConfigError(
            f"no tokenizer {name!r}: pass one of {', '.join(TOKENIZER_NAMES)} (tokenizer_for_model() takes a model)",
            code="UNKNOWN_TOKENIZER",
        )
    with _loading:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def tokenizer_for_model(model: str | None) -> BundledTokenizer:
    """Return the tokenizer of a model, or ``cl100k_base`` for unknown models."""
    return get_tokenizer(family_or_default(model).tokenizer)


def without_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which broken JSON escapes leave behind, with U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(name: str) -> BundledTokenizer:
    import splintr

    return BundledTokenizer(name, splintr.Tokenizer.from_pretrained(name), splintr.base_vocab_size(name))


DEFAULT_TOKENIZER = "cl100k_base"
"""Used for unknown models."""


@dataclass(frozen=True, slots=True)
class Family:
    """A tokenizer and whether it is the model's own (``exact``) or only the closest one that is bundled."""

    tokenizer: str
    """The name of the tokenizer, such as ``o200k_base`` or ``llama3``."""
    exact: bool = True


_DEFAULT = Family(DEFAULT_TOKENIZER, exact=False)

# The first pattern that matches wins: special cases come before their family.
_EXACT: tuple[tuple[str, str], ...] = (
    ("gpt-oss*", "gpt-oss"),
    ("gpt-4o*", "o200k_base"),
    ("gpt-4.1*", "o200k_base"),
    ("gpt-4.5*", "o200k_base"),
    ("gpt-5*", "o200k_base"),
    ("gpt-6*", "o200k_base"),
    ("chatgpt-4o*", "o200k_base"),
    ("o[134]", "o200k_base"),
    ("o[134]-*", "o200k_base"),
    ("codex-mini*", "o200k_base"),
    ("gpt-4*", "cl100k_base"),
    ("gpt-3.5*", "cl100k_base"),
    ("gpt-35*", "cl100k_base"),
    ("text-embedding-*", "cl100k_base"),
    ("*deepseek*distill*llama*", "llama3"),
    ("*deepseek*distill*qwen*", "qwen3"),
    ("*deepseek-v3*", "deepseek_v3"),
    ("*deepseek-r1*", "deepseek_v3"),
    ("*deepseek-chat*", "deepseek_v3"),
    ("*deepseek-reasoner*", "deepseek_v3"),
    ("*codellama*", "codellama"),
    ("*code-llama*", "codellama"),
    ("*tinyllama*", "llama2"),
    ("*llama-2*", "llama2"),
    ("*llama2*", "llama2"),
    ("*vicuna*", "llama2"),
    ("*mythomax*", "llama2"),
    ("*llama-3*", "llama3"),
    ("*llama3*", "llama3"),
    ("*mixtral-8x22b*", "mistral_v2"),
    ("*mixtral*", "mistral_v1"),
    ("*mistral-7b*v0.3*", "mistral_v2"),
    ("*mistral-7b*", "mistral_v1"),
    ("codestral-22b*", "mistral_v2"),
    ("*mistral-nemo*", "mistral_v3"),
    ("*mistral-large*", "mistral_v3"),
    ("*mistral-medium*", "mistral_v3"),
    ("*mistral-small*", "mistral_v3"),
    ("*ministral*", "mistral_v3"),
    ("*pixtral*", "mistral_v3"),
    ("*magistral*", "mistral_v3"),
    ("*devstral*", "mistral_v3"),
    ("*qwen2*", "qwen3"),
    ("*qwen-2*", "qwen3"),
    ("*qwen3*", "qwen3"),
    ("*qwen-3*", "qwen3"),
    ("*qwq*", "qwen3"),
    ("*glm-4*", "glm4"),
    ("*glm4*", "glm4"),
    ("*kimi-k3*", "kimi_k3"),
    ("*kimi*", "kimi_k2"),
    ("*gemma-2*", "gemma2"),
    ("*gemma2*", "gemma2"),
    ("*gemma-3*", "gemma3"),
    ("*gemma3*", "gemma3"),
    ("*gemma-4*", "gemma4"),
    ("*gemma4*", "gemma4"),
    ("*phi-4*", "phi4"),
    ("*olmo-2*", "olmo2"),
)

_CLOSEST: tuple[tuple[str, str], ...] = (
    ("*deepseek*", "deepseek_v3"),
    ("*llama*", "llama3"),
    ("*mistral*", "mistral_v3"),
    ("*codestral*", "mistral_v3"),
    ("*qwen*", "qwen3"),
    ("*glm*", "glm4"),
    ("*moonshot*", "kimi_k2"),
    ("*gemini*", "gemma3"),
    ("*gemma*", "gemma3"),
    ("*phi-*", "phi4"),
    ("*olmo*", "olmo2"),
)


def family_of(model: str) -> Family | None:
    """Return the tokenizer family of a model; None if its name is unknown.

    Names may include a provider and a variant: ``meta-llama/Llama-3.1-70B-Instruct:free``.
    """
    return _family_of(model)


def family_or_default(model: str | None) -> Family:
    """Return the tokenizer family of a model; unknown models get ``DEFAULT_TOKENIZER``."""
    return (_family_of(model) if model else None) or _DEFAULT


@lru_cache(maxsize=MODEL_CACHE_SIZE)
def _family_of(model: str) -> Family | None:
    name = model.strip().lower().partition(":")[0].rpartition("/")[2]
    for table, exact in ((_EXACT, True), (_CLOSEST, False)):
        for pattern, tokenizer in table:
            if fnmatchcase(name, pattern):
                return Family(tokenizer, exact)
    return None
