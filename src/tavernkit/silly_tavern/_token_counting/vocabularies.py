"""The vocabularies of SillyTavern's tokenizer families, and substitutes for those that are not bundled."""

from __future__ import annotations

import json
import math
import os
import threading
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ahocorasick_rs import AhoCorasick, MatchKind

from tavernkit._dataclass import dataclass
from tavernkit._lazy import read_data
from tavernkit.budget._file_tokenizer import CLAUDE_FILE, installed_file, load_file_tokenizer
from tavernkit.budget._tokenizers import (
    WORD_VOCABULARIES,
    BundledTokenizer,
    count_in_parts,
    encode_in_parts,
    get_tokenizer,
    without_lone_surrogates,
)
from tavernkit.errors import Warn

BYTES_A_TOKEN = 3.35
"""SillyTavern's estimate where it has no tokenizer."""

ESTIMATE = "estimate"
"""The name for estimates: UTF-8 bytes are counted."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Where a family's vocabulary comes from.

    ``bundled`` is the vocabulary of ``splintr-rs``; if ``off_by`` says how far it may be off, it is only a substitute
    for SillyTavern's ``file``, which an ``installed`` package may have under another name. Vocabularies of OpenAI
    (``tiktoken``) count a message by its parts, all others as one text.
    """

    bundled: str
    tiktoken: bool = False
    file: str = ""
    installed: tuple[str, str] | None = None
    off_by: str = ""
    symbols: bool = False
    normal_form: str = ""

    @property
    def exact(self) -> bool:
        """True if the bundled vocabulary counts like SillyTavern's."""
        return not self.off_by


_FEW = "by 5 % in all, single texts by more"

VOCABULARIES: Mapping[str, Vocabulary] = {
    "cl100k_base": Vocabulary("cl100k_base", tiktoken=True),
    "o200k_base": Vocabulary("o200k_base", tiktoken=True),
    "p50k_base": Vocabulary("cl100k_base", tiktoken=True, off_by=_FEW),
    "r50k_base": Vocabulary("cl100k_base", tiktoken=True, off_by=_FEW),
    "gpt2": Vocabulary(
        "cl100k_base", file="gpt2.json", installed=("novelai_api", "tokenizers/gpt2_tokenizer.json"), off_by=_FEW
    ),
    "llama": Vocabulary("llama2"),
    "llama3": Vocabulary("llama3", symbols=True),
    "mistral": Vocabulary("mistral_v1"),
    "gemma": Vocabulary("gemma2", symbols=True),
    "deepseek": Vocabulary("deepseek_v3", symbols=True),
    "nemo": Vocabulary("mistral_v3", symbols=True),
    "qwen2": Vocabulary("qwen3", symbols=True, normal_form="NFC"),
    "claude": Vocabulary(
        "cl100k_base",
        file="claude.json",
        installed=CLAUDE_FILE,
        off_by="by 8 % on average, single texts by up to 133 %",
    ),
    "command-r": Vocabulary("qwen3", file="command-r.json", off_by="by 10 % on average"),
    "command-a": Vocabulary("qwen3", file="command-a.json", off_by="by 10 % on average"),
    "jamba": Vocabulary("llama2", file="jamba.model", off_by="by 11 % on average"),
    "yi": Vocabulary("llama2", file="yi.model", off_by="by more than 10 %"),
    "nerdstash": Vocabulary(
        "llama2",
        file="nerdstash.model",
        installed=("novelai_api", "tokenizers/nerdstash_v1.model"),
        off_by="by more than 10 %",
    ),
    "nerdstash_v2": Vocabulary(
        "llama2",
        file="nerdstash_v2.model",
        installed=("novelai_api", "tokenizers/nerdstash_v2.model"),
        off_by="by more than 10 %",
    ),
}

_TIKTOKEN: Mapping[str, str] = {
    "o1": "o200k_base",
    "gpt-4o": "o200k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5-turbo": "cl100k_base",
    "gpt-3.5-turbo-0301": "cl100k_base",
    "text-davinci-003": "p50k_base",
    "text-davinci-002": "p50k_base",
    "text-davinci-001": "r50k_base",
    "text-curie-001": "r50k_base",
    "text-babbage-001": "r50k_base",
    "text-ada-001": "r50k_base",
    "code-davinci-002": "p50k_base",
    "code-davinci-001": "p50k_base",
    "code-cushman-002": "p50k_base",
    "code-cushman-001": "p50k_base",
}

_PLACES = ("", "_cache", "data/_cache", "src/tokenizers")
"""Where a folder of tokenizer files, a data root and an installation keep them."""


class TokenizerFiles:
    """Tokenizer files of a folder: ``claude.json``, ``command-r.json``, ``jamba.model`` and so on.

    The folder may be your own, a SillyTavern data root (whose ``_cache`` has downloaded files) or an installation.
    Files are loaded on demand; ``.json`` files may be compressed (``command-r.json.gz``). ``.model`` files need the
    ``sentencepiece`` package.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def find(self, name: str) -> Path | None:
        """Return the file of a name, perhaps compressed, or None."""
        names = (name, f"{name}.gz") if name.endswith(".json") else (name,)
        candidates = (self.folder / place / each for each in names for place in _PLACES)
        return next((path for path in candidates if path.is_file()), None)

    def __repr__(self) -> str:
        return f"TokenizerFiles({str(self.folder)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenizerFiles) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash(self.folder)


@dataclass(frozen=True, slots=True)
class VocabularyInUse:
    """A loaded vocabulary: its counter, its name, and whether it is a substitute."""

    name: str
    count: Callable[[str], int]
    tiktoken: bool = False
    stands_in: str = ""
    by_word: bool = False
    """True if it caches the counts of words."""

    @property
    def exact(self) -> bool:
        """True if it counts like SillyTavern."""
        return not self.stands_in


def vocabulary_of(family: str) -> str:
    """Return the name of a family's vocabulary."""
    return _TIKTOKEN.get(family, family)


def load_vocabulary(name: str, files: TokenizerFiles | None, warn: Warn) -> VocabularyInUse:
    """Load a vocabulary: the bundled one if it is exact, else a file's or a package's, else the bundled substitute.

    Args:
        name: A key of ``VOCABULARIES``, or ``ESTIMATE``.
        files: Where to look for files.
        warn: Called if a file cannot be used.
    """
    if name == ESTIMATE:
        return VocabularyInUse(name, estimate)
    vocabulary = VOCABULARIES[name]
    path = _file_of(vocabulary, files)
    if path is not None:
        try:
            return VocabularyInUse(name, _file_counter(path), vocabulary.tiktoken)
        except (OSError, ValueError, ImportError) as error:
            warn(f"the tokenizer file {path.name} cannot be used: {error}")
    stands_in = ""
    if not vocabulary.exact:
        stands_in = f"{vocabulary.bundled} is used instead of {name}: counts may be off {vocabulary.off_by}"
    by_word = vocabulary.bundled in WORD_VOCABULARIES
    return VocabularyInUse(name, _Deferred(name), vocabulary.tiktoken, stands_in, by_word)


def _file_of(vocabulary: Vocabulary, files: TokenizerFiles | None) -> Path | None:
    """Return the file of a vocabulary that is not bundled: the given one, else that of an installed package."""
    if vocabulary.exact or not vocabulary.file:
        return None
    given = files.find(vocabulary.file) if files is not None else None
    return given or (installed_file(*vocabulary.installed) if vocabulary.installed is not None else None)


def token_encoder(name: str, files: TokenizerFiles | None) -> Callable[[str], list[int]] | None:
    """Return a function that gives the token ids of a text, loaded on demand; None if there is only a substitute.

    Args:
        name: A key of ``VOCABULARIES``, or ``ESTIMATE``.
        files: Where to look for files.
    """
    vocabulary = VOCABULARIES.get(name)
    if vocabulary is None:
        return None
    if vocabulary.exact:
        return lambda text: get_tokenizer(vocabulary.bundled).encode(text)
    path = _file_of(vocabulary, files)
    if path is None:
        return None
    if path.suffix == ".model":
        return lambda text: encode_in_parts(
            text, lambda part: _sentencepiece(str(path)).encode(without_lone_surrogates(part))
        )
    return lambda text: load_file_tokenizer(path).encode(text)


def estimate(text: str) -> int:
    """Return SillyTavern's estimate for a text."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)


class _Deferred:
    """Counts with a bundled vocabulary, loaded on first use."""

    __slots__ = ("_count", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._count: Callable[[str], int] | None = None

    def __call__(self, text: str) -> int:
        if self._count is None:
            self._count = bundled_counter(self._name)
        return self._count(text)


_bundled: dict[str, Callable[[str], int]] = {}
_loading = threading.Lock()


def bundled_counter(name: str) -> Callable[[str], int]:
    """Return the function that counts texts with the bundled vocabulary of a family, cached."""
    with _loading:
        if name not in _bundled:
            _bundled[name] = _make_bundled(name)
        return _bundled[name]


def _make_bundled(name: str) -> Callable[[str], int]:
    vocabulary = VOCABULARIES[name]
    tokenizer = get_tokenizer(vocabulary.bundled)
    count: Callable[[str], int] = tokenizer.count
    if vocabulary.tiktoken:
        count = _Refusing(tokenizer)
    if name == "llama3":
        count = _Split(tokenizer, _llama3_splits())
    if vocabulary.symbols:
        count = _WithSymbols(count, _symbols()[name])
    if vocabulary.normal_form:
        count = _Normalized(count, vocabulary.normal_form)
    return count


class _Refusing:
    """Returns -1 for a text with a special token, which tiktoken refuses."""

    def __init__(self, tokenizer: BundledTokenizer) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> int:
        return -1 if self._tokenizer.has_special_token(text) else self._tokenizer.count(text)


class _Split:
    """Counts tokens that SillyTavern's loader never produces as the tokens it uses instead."""

    def __init__(self, tokenizer: BundledTokenizer, splits: Mapping[int, int]) -> None:
        self._encode = tokenizer.encode
        self._splits = splits

    def __call__(self, text: str) -> int:
        ids = self._encode(text)
        more = self._splits
        return len(ids) + sum([more[each] for each in ids if each in more])


class _WithSymbols:
    """Counts the strings that are one token wherever they are, and the text between them."""

    def __init__(self, count: Callable[[str], int], symbols: list[str]) -> None:
        self._count = count
        self._starts = tuple({symbol[0] for symbol in symbols})
        self._finder = AhoCorasick(symbols, matchkind=MatchKind.LeftmostLongest)

    def __call__(self, text: str) -> int:
        if not any(start in text for start in self._starts):
            return self._count(text)
        text = without_lone_surrogates(text)
        total = at = 0
        for _, start, end in self._finder.find_matches_as_indexes(text):
            total += 1 + (self._count(text[at:start]) if start > at else 0)
            at = end
        return total + (self._count(text[at:]) if at < len(text) else 0)


class _Normalized:
    """Counts texts in a Unicode normal form."""

    def __init__(self, count: Callable[[str], int], form: str) -> None:
        self._count = count
        self._form = form

    def __call__(self, text: str) -> int:
        return self._count(text if text.isascii() else unicodedata.normalize(self._form, text))  # pyright: ignore[reportArgumentType]  # a form of the table


def _file_counter(path: Path) -> Callable[[str], int]:
    if path.suffix != ".model":
        return load_file_tokenizer(path).count
    model = _sentencepiece(str(path))
    return lambda text: count_in_parts(text, lambda part: len(model.encode(without_lone_surrogates(part))))


class _SentencePiece(Protocol):
    def encode(self, text: str) -> list[int]: ...


@cache
def _sentencepiece(path: str) -> _SentencePiece:
    package = import_module("sentencepiece")
    try:
        return cast("_SentencePiece", package.SentencePieceProcessor(model_file=path))
    except RuntimeError as error:  # raised by the binding for invalid files
        raise ValueError(str(error)) from error


@cache
def _symbols() -> Mapping[str, list[str]]:
    return json.loads(_data("token_symbols.json"))


@cache
def _llama3_splits() -> Mapping[int, int]:
    """Return the extra count of each id."""
    return {int(token_id): count - 1 for token_id, count in json.loads(_data("llama3_splits.json")).items()}


def _data(name: str) -> str:
    return read_data("tavernkit.silly_tavern", name)
