"""Counts the tokens of messages in chat completion exactly as SillyTavern does, and says how far counts may be off."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._text.traced import plain
from tavernkit._values import LRUCache
from tavernkit.silly_tavern._limits import LONG_TEXT_CHARACTERS, TOKEN_CACHE_SIZE
from tavernkit.silly_tavern._token_counting.choice import (
    KOBOLD_API,
    NOT_CONNECTED,
    TEXT_API,
    TOKENIZERS,
    TextBackend,
    chosen_tokenizer,
    family_name,
    tokenizer_name,
)
from tavernkit.silly_tavern._token_counting.vocabularies import (
    ESTIMATE,
    VOCABULARIES,
    TokenizerFiles,
    VocabularyInUse,
    load_vocabulary,
    vocabulary_of,
)

PRIMING_TOKENS = 3
"""Tokens reserved once per prompt, for the start of the reply."""

NOT_FULL = 2
"""What SillyTavern subtracts from a count that is not "full", once per call."""


@dataclass(frozen=True, slots=True)
class CountingRule:
    """How SillyTavern counts for a source and model.

    ``name`` is the name that its page requests, ``family`` the server's family for it, ``vocabulary`` what counts.
    """

    name: str
    family: str
    vocabulary: str

    @property
    def flat(self) -> bool:
        """True if a message is counted as one text. OpenAI's families count its parts and add constants."""
        return not VOCABULARIES[self.vocabulary].tiktoken

    @property
    def per_message(self) -> int:
        """Tokens of a message besides its texts: those of the message and, as each is counted alone, of the prompt."""
        if self.flat:
            return 0
        return 4 + 3 + 9 if self.family == "gpt-3.5-turbo-0301" else 3 + 3

    @property
    def per_name(self) -> int:
        """Tokens of a name besides its text."""
        if self.flat:
            return 0
        return -1 if self.family == "gpt-3.5-turbo-0301" else 1

    @property
    def discount(self) -> int:
        """What is subtracted per call. Calls for the name ``claude`` are always full."""
        return 0 if self.name == "claude" else NOT_FULL

    @property
    def overhead(self) -> int:
        """The approximate tokens of a message besides its content, for trimmers that add up contents."""
        return 1 + self.per_message - (0 if self.flat else self.discount)


def counting_rule(source: str, model: str, model_list: Sequence[Mapping[str, object]] = ()) -> CountingRule:
    """Return how SillyTavern counts.

    Args:
        source: ``chat_completion_source``.
        model: The source's model.
        model_list: OpenRouter's list of models, if known.
    """
    name = tokenizer_name(source, model, model_list)
    family = family_name(name)
    return CountingRule(name, family, vocabulary_of(family))


class TextCounts:
    """Counts texts with one function and caches the counts, so that the next turn counts only new texts."""

    __slots__ = ("_by_word", "_count", "_counts")

    def __init__(self, count: Callable[[str], int], *, by_word: bool = False) -> None:
        """Make a counter.

        Args:
            count: Counts a text.
            by_word: It caches counts of words, which is faster for a long text than looking for it in a cache.
        """
        self._count = count
        self._by_word = by_word
        self._counts: LRUCache[str | bytes, int] = LRUCache(TOKEN_CACHE_SIZE)

    def __call__(self, text: str) -> int:
        """Return the tokens of a text."""
        if type(text) is not str:
            text = plain(text)
        if len(text) <= LONG_TEXT_CHARACTERS:
            key = text
        elif self._by_word:
            return self._count(text)
        else:
            key = _digest(text)
        count = self._counts.get(key)
        if count is None:
            count = self._count(text)
            self._counts.put(key, count)
        return count


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class MessageCounter:
    """Counts messages for one model."""

    def __init__(
        self,
        rule: CountingRule,
        vocabulary: VocabularyInUse | None = None,
        *,
        count: Callable[[str], int] | None = None,
    ) -> None:
        """Make a counter.

        Args:
            rule: How messages are counted.
            vocabulary: The rule's vocabulary; the bundled one by default.
            count: Counts texts instead of the vocabulary.
        """
        self.rule = rule
        self.vocabulary = vocabulary if vocabulary is not None else load_vocabulary(rule.vocabulary, None, _ignore)
        self.text = TextCounts(count if count is not None else self.vocabulary.count)
        """The tokens of a text; -1 if it contains a special token, which OpenAI's encoders refuse."""
        self._flat = rule.flat
        self._constant = rule.per_message - rule.discount
        self._per_name = rule.per_name

    def message(self, role: str, content: str, name: str | None = None) -> int:
        """Return the tokens of a message in a prompt.

        Counting by parts stops at the first of role, content and name that cannot be encoded. Counted as one text, a
        tiny message may cost zero or less.
        """
        if self._flat:
            text = f"{role}\n\n{content}" if name is None else f"{role}\n\n{content}\n\n{name}"
            return self.text(text) + self._constant
        total = self._constant
        for text in (role, content) if name is None else (role, content, name):
            count = self.text(text)
            if count < 0:
                return total
            total += count
        return total if name is None else total + self._per_name

    def texts(self, texts: Sequence[str]) -> int:
        """Return the tokens of a message with these texts as values, such as a tool call."""
        return self._values([("", text) for text in texts]) - self.rule.discount

    def count(self, messages: Sequence[Mapping[str, object]], *, full: bool = False) -> int:
        """Return the tokens of a list of messages, counted in one call.

        Args:
            messages: Objects as they are counted: the order of their keys matters.
            full: True if SillyTavern asks for the full count.
        """
        total = sum(self._values([(key, value) for key, value in each.items()]) for each in messages)
        return total - (0 if full else self.rule.discount)

    def lore(self, text: str) -> int:
        """Return the tokens of a text for World Info, extensions and ``/count``.

        SillyTavern counts it as a message with only content, so with OpenAI's families it costs six tokens more.
        """
        return max(self.text(text), 0) + self.rule.per_message if text else 0

    def _values(self, values: Sequence[tuple[str, object]]) -> int:
        if self._flat:
            return self.text("\n\n".join(each if isinstance(each, str) else to_string(each) for _, each in values))
        total = self.rule.per_message
        for key, value in values:
            count = self.text(value) if isinstance(value, str) else -1
            if count < 0:
                return total
            total += count + (self._per_name if key == "name" else 0)
        return total


def new_counter(rule: CountingRule, files: TokenizerFiles | None, warn: Callable[[str], None]) -> MessageCounter:
    """Make the counter of a rule, with a vocabulary from files if the bundled one is only a substitute."""
    return MessageCounter(rule, load_vocabulary(rule.vocabulary, files, warn))


def _ignore(_message: str) -> None:
    """Ignore a warning: bundled vocabularies have no problems."""


class TextCounter:
    """Counts texts one by one; ``padding`` is added to counts of whole prompts."""

    def __init__(self, count: Callable[[str], int], padding: int) -> None:
        """Make a counter.

        Args:
            count: Counts a text that is not empty.
            padding: ``power_user.token_padding``.
        """
        self.count = count
        self._padding = padding

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return max(self.count(text), 0) if text else 0

    def prompt(self, text: str) -> int:
        """Return the tokens of a whole prompt, with the padding."""
        text = text.replace("\r", "")
        return self.text(text) + self._padding if text else 0


class CountingEstimator:
    """A token estimator that counts with a function, for any model."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        """Count a text; negative counts become 0."""
        return max(self._count(text), 0)


OTHER_TOKENIZER = "counts may be off by up to 20 % in all, single texts by more"
"""The difference between the bundled vocabularies, measured over the recorded texts."""

ALWAYS_BY_NAME = ("openai/", "anthropic/")
"""Vendors whose models OpenRouter lists with tokenizers for which SillyTavern looks at the model's name anyway."""


def chat_note(source: str, model: str, model_list: Sequence[Mapping[str, object]], used: VocabularyInUse) -> str:
    """Return how far counts of chat completion may be off, or an empty text.

    Args:
        source: ``chat_completion_source``.
        model: The source's model.
        model_list: OpenRouter's list of models, if known.
        used: The vocabulary that counts.
    """
    unlisted = source == "openrouter" and "/" in model and not model.startswith(ALWAYS_BY_NAME)
    return _joined(used.stands_in, _unlisted(model, used) if unlisted and not _is_listed(model, model_list) else "")


def text_note(setting: int, backend: TextBackend, used: VocabularyInUse) -> str:
    """Return how far counts of text completion may be off, or an empty text.

    Args:
        setting: ``power_user.tokenizer``.
        backend: The backend in the settings.
        used: The vocabulary that counts.
    """
    return _joined(used.stands_in, _of_backend(setting, backend, used) if backend.online == NOT_CONNECTED else "")


def _of_backend(setting: int, backend: TextBackend, used: VocabularyInUse) -> str:
    """Return what SillyTavern would do differently if it were connected to the backend."""
    chosen = chosen_tokenizer(setting, backend)
    connected = chosen_tokenizer(setting, replace(backend, online="connected", supported=True, can_tokenize=True))
    if connected in (TEXT_API, KOBOLD_API):
        name = backend.type if connected == TEXT_API else backend.main_api
        return f"SillyTavern lets {name} count while it is connected; {_called(used)} is used: {OTHER_TOKENIZER}"
    if connected == chosen:
        return ""
    if backend.type == "openrouter" and not _is_listed(backend.model, backend.model_list):
        return _unlisted(backend.model, used)
    other = TOKENIZERS[connected]
    return f"SillyTavern counts with {other} while it is connected; {_called(used)} is used: {OTHER_TOKENIZER}"


def _unlisted(model: str, used: VocabularyInUse) -> str:
    return (
        f"OpenRouter's list of models, which names tokenizers, is not known for {model} (model_list=): "
        f"{_called(used)} is used, and {OTHER_TOKENIZER}"
    )


def _called(used: VocabularyInUse) -> str:
    return "an estimate" if used.name == ESTIMATE else used.name


def _is_listed(model: str, model_list: Sequence[Mapping[str, object]]) -> bool:
    return any(entry.get("id") == model for entry in model_list)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
