"""Counts tokens as RisuAI does (per message, with its overhead), and makes a prompt fit.

The oldest chat items are dropped, and messages are blanked after assembly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, LazySequence, is_mapping
from tavernkit.budget._adapters import FileAdapter, ModelAdapter
from tavernkit.budget._estimator import TokenEstimator, default_estimator
from tavernkit.budget._file_tokenizer import CLAUDE_FILE, installed_file
from tavernkit.budget._tokenizers import get_tokenizer
from tavernkit.cache._history_cut import CutCosts, HistoryUnit, first_kept
from tavernkit.prompt._block import Omission
from tavernkit.prompt._inputs import Estimator
from tavernkit.risu_ai._chat.chat_cache import WrittenMessages
from tavernkit.risu_ai._chat.prompt_message import NEW_EXAMPLE_MEMO, PromptMessage, is_frozen, title_of
from tavernkit.risu_ai._models import model_info

RESERVE = 50
"""Tokens that RisuAI reserves in addition to the reply."""

GPT_OVERHEAD, OTHER_OVERHEAD = 5, 3
"""Tokens of each message besides its text, for models whose id starts with ``gpt`` and for others."""

LOW_DETAIL_TOKENS = 87
"""Tokens of a picture with low detail, RisuAI's default."""

MULTIMODAL_TOKENS = 1000
"""Assumed tokens of other pictures, audio and videos; RisuAI's own numbers depend on their size."""

_TOKENIZERS = (
    None,
    "cl100k_base",
    "o200k_base",
    "mistral_v3",
    "llama2",
    "llama2",
    "cl100k_base",
    "llama2",
    "llama3",
    "gemma3",
    "gemma3",
    "cl100k_base",
    None,
    "deepseek_v3",
)
"""The bundled tokenizer for each of RisuAI's numbers; the closest one if RisuAI's own is not bundled."""


_EXACT = frozenset({1, 2})
"""RisuAI's numbers of OpenAI's own tokenizers: their token ids are exact."""

_CLAUDE = 6
"""RisuAI's number of Claude's tokenizer, which an installed package may have."""


class MessageCounter:
    """Counts texts and messages for one model."""

    def __init__(self, model: str, estimator: Estimator | None = None, *, low_detail: bool = True) -> None:
        self._picture_tokens = LOW_DETAIL_TOKENS if low_detail else MULTIMODAL_TOKENS
        self._gpt = model.startswith("gpt")
        self.overhead = GPT_OVERHEAD if self._gpt else OTHER_OVERHEAD
        self._estimator: Estimator = estimator if estimator is not None else _estimator(model)
        self._model = model

    def text(self, text: str) -> int:
        """Tokens of a text."""
        return self._estimator.estimate(text, self._model)

    def message(self, message: PromptMessage) -> int:
        """Tokens of a message; names are free on models whose id starts with ``gpt``."""
        content, name, media, known = message.content, message.name, message.multimodals, message.cost
        if known is not None and known[0] is self and known[1] is content and known[2] is name and known[3] is media:
            return known[4]
        tokens = self.text(content) + self.overhead
        if name and not self._gpt:
            tokens += self.text(name) + 1
        if media:
            tokens += sum(map(self._media, media))
        message.cost = (self, content, name, media, tokens)
        return tokens

    def _media(self, media: FrozenJson) -> int:
        return self._picture_tokens if is_mapping(media) and media.get("type") == "image" else MULTIMODAL_TOKENS

    def messages(self, messages: Iterable[PromptMessage]) -> int:
        """Tokens of several messages."""
        return sum(map(self.message, messages))


def encoder(model: str) -> Callable[[str], Sequence[int]] | None:
    """Return a function that gives the token ids of a text; None if the model's ids are not known."""
    number = model_info(model).tokenizer
    name = _TOKENIZERS[number] if number in _EXACT else None
    return None if name is None else lambda text: get_tokenizer(name).encode(text)


def _estimator(model: str) -> Estimator:
    number = model_info(model).tokenizer
    file = installed_file(*CLAUDE_FILE) if number == _CLAUDE else None
    if file is not None:
        return _of_file(str(file))
    name = _TOKENIZERS[number] if 0 <= number < len(_TOKENIZERS) else None
    return default_estimator() if name is None else _named(name)


@cache
def _named(name: str) -> TokenEstimator:
    """Return the estimator of a tokenizer, with its cached counts."""
    return TokenEstimator(default=ModelAdapter(name))


@cache
def _of_file(path: str) -> TokenEstimator:
    return TokenEstimator(default=FileAdapter(path))


OLDEST = "the context is too small: the oldest chat items go first"
IN_STEPS = "the context is too small: the chat is cut in a large step, so that prompts begin alike"
BLANKED = "the finished prompt is too long for the context: chat items go from the top"


class Dropped(NamedTuple):
    """A chat item that is not in the prompt, its tokens (if known), and the reason."""

    message: PromptMessage
    tokens: int | None
    reason: str

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.message.source)

    @property
    def budget_group(self) -> str:
        """The budget group: examples or history."""
        message = self.message
        example = message.source.get("kind") == "example" or message.memo == NEW_EXAMPLE_MEMO
        return "examples" if example else "history"


class DroppedOldest(LazySequence[Dropped]):
    """The items before the first one that is kept. Lazy, because a long chat loses thousands in every turn.

    Args:
        head: Dropped items before the history.
        items: Messages of the history.
        tokens: What each of them costs.
        count: How many of them were dropped.
        cost: Their total tokens.
    """

    __slots__ = ("cost", "head", "history")

    def __init__(
        self, head: Sequence[Dropped], items: Sequence[PromptMessage], tokens: Sequence[int], count: int, cost: int
    ) -> None:
        self.head = head
        self.cost = sum(each.tokens or 0 for each in head) + cost
        self.history = LazySequence(count, lambda place: Dropped(items[place], tokens[place], OLDEST))
        super().__init__(len(head) + count, lambda at: head[at] if at < len(head) else self.history[at - len(head)])


def dropped_tokens(dropped: Sequence[Dropped]) -> int:
    """Return the total tokens of items, as far as known."""
    return dropped.cost if isinstance(dropped, DroppedOldest) else sum(each.tokens or 0 for each in dropped)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The remaining messages. ``required_tokens`` is set if they do not fit and nothing more may be dropped."""

    messages: list[PromptMessage]
    total: int
    dropped: Sequence[Dropped] = ()
    required_tokens: int | None = None
    again: tuple[PromptMessage, ...] = ()
    """Active lore at the end of the messages whose own message was dropped."""


def drop_oldest(messages: Sequence[PromptMessage], total: int, limit: int, counter: MessageCounter) -> Trimmed:
    """Drop chat items from the front until the total fits; the last one stays."""
    dropped: list[Dropped] = []
    while total > limit:
        if len(messages) - len(dropped) <= 1:
            return Trimmed(list(messages[len(dropped) :]), total, tuple(dropped), total)
        oldest = messages[len(dropped)]
        tokens = counter.message(oldest)
        dropped.append(Dropped(oldest, tokens, OLDEST))
        total -= tokens
    return Trimmed(list(messages[len(dropped) :]), total, tuple(dropped))


def drop_oldest_known(
    head: Sequence[PromptMessage], history: WrittenMessages, total: int, limit: int, counter: MessageCounter
) -> Trimmed:
    """Do the same for items with known costs, without visiting each; messages of the history are copied.

    Args:
        head: Messages before the history.
        history: The history.
        total: Tokens of the whole prompt.
        limit: The maximum tokens.
        counter: Counts messages.
    """
    items, sums = history.items, history.sums
    if not items:
        return drop_oldest(head, total, limit, counter)
    gone: list[Dropped] = []
    while total > limit and len(gone) < len(head):
        tokens = counter.message(head[len(gone)])
        gone.append(Dropped(head[len(gone)], tokens, OLDEST))
        total -= tokens
    count = min(bisect_left(sums, total - limit), len(items) - 1) if total > limit else 0
    total -= sums[count]
    dropped = DroppedOldest(gone, items, history.tokens, count, sums[count])
    kept = [*head[len(gone) :], *[item.copy() for item in items[count:]]]
    return Trimmed(kept, total, dropped, total if total > limit else None)


def cut_in_steps(
    messages: Sequence[PromptMessage],
    total: int,
    limit: int,
    counter: MessageCounter,
    costs: CutCosts,
    stored: str | None,
    active: Collection[str] = (),
) -> Trimmed:
    """Drop chat items from the front in large steps, so that many prompts begin the same way (``strategy="cache"``).

    Frozen lore is dropped with the message before it; active lore is repeated.

    Args:
        messages: The chat items, oldest first.
        total: Tokens of the whole prompt.
        limit: The maximum tokens.
        counter: Counts messages.
        costs: The profile and the expected turns; the rest is filled in.
        stored: The memo of the first item of the previous prompt.
        active: Ids of active lore.
    """
    tokens = [counter.message(message) for message in messages]
    around = total - sum(tokens)
    starts = [place for place, each in enumerate(messages) if not place or not is_frozen(each)]
    ends = [*starts[1:], len(messages)]
    units: list[HistoryUnit] = []
    for place, end in zip(starts, ends, strict=True):
        lore = {each: tokens[each] for each in range(place + 1, end)}
        needed = sum(count for each, count in lore.items() if _identity(messages[each]) in active)
        units.append(HistoryUnit(tokens[place], sum(lore.values()), needed, messages[place].role == "user"))
    before = next((unit for unit, place in enumerate(starts) if stored and messages[place].memo == stored), None)
    first = first_kept(units, replace(costs, room=max(limit - around, 0), head=max(around, 0)), before)
    if first is None:
        return drop_oldest(messages, total, limit, counter)
    start = starts[first] if starts else 0
    dropped = tuple(Dropped(messages[place], tokens[place], IN_STEPS) for place in range(start))
    said = {_identity(message) for message in messages[start:] if is_frozen(message)}
    again = {_identity(each): each for each in messages[:start] if is_frozen(each) and _identity(each) in active}
    lost = tuple(message for identity, message in again.items() if identity not in said)
    total = total - sum(tokens[:start]) + sum(counter.message(message) for message in lost)
    return Trimmed([*messages[start:], *lost], total, dropped, again=lost)


def _identity(message: PromptMessage) -> str:
    return str(message.source.get("id"))


def blank_removable(messages: Sequence[PromptMessage], limit: int, counter: MessageCounter) -> Trimmed:
    """Blank removable messages from the top until the finished list fits, and leave blank ones out."""
    total = counter.messages(messages)
    dropped: list[Dropped] = []
    for message in messages:
        if total <= limit:
            break
        if message.removable:
            tokens = counter.message(message)
            dropped.append(Dropped(message.copy(), tokens, BLANKED))
            total -= tokens
            message.content = ""  # also where the chat is printed again: there RisuAI subtracts only what is left
    else:
        if total > limit:
            return Trimmed(list(messages), total, tuple(dropped), total)
    if not dropped:
        return Trimmed(list(messages), total)
    return Trimmed([message for message in messages if message.content or message.multimodals], total, tuple(dropped))


def omissions_of(dropped: Sequence[Dropped]) -> Iterator[Omission]:
    """Report what was left out: one line per run of messages, because a long chat may lose thousands."""
    for (group, reason), run in groupby(_stretches(dropped), key=lambda each: (each[0].budget_group, each[0].reason)):
        gone = list(run)
        costs, count = [tokens for *_, tokens in gone], sum(size for _, _, size, _ in gone)
        first, last = gone[0][0].title, gone[-1][1].title
        span = first if first == last else f"{first} to {last}"
        yield Omission(
            kind="example" if group == "examples" else "history",
            id=span,
            reason=reason,
            name=span if count == 1 else f"{count} messages ({span})",
            tokens=None if None in costs else sum(cost for cost in costs if cost is not None),
        )


def _stretches(dropped: Sequence[Dropped]) -> Iterator[tuple[Dropped, Dropped, int, int | None]]:
    """Yield items that are reported together: the first and the last, their number, and their tokens."""
    lazy = isinstance(dropped, DroppedOldest)
    for each in dropped.head if lazy else dropped:
        yield each, each, 1, each.tokens
    if lazy and dropped.history:
        cost = dropped.cost - sum(each.tokens or 0 for each in dropped.head)
        yield dropped.history[0], dropped.history[-1], len(dropped.history), cost
