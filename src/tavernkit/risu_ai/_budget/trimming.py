"""Makes a prompt fit as RisuAI does: the oldest chat items go first; what is left over after assembly is blanked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit.cache._history_cut import CutCosts, HistoryUnit, first_kept
from tavernkit.prompt._block import Omission
from tavernkit.risu_ai._budget.token_counting import MessageCounter
from tavernkit.risu_ai._chat.prompt_message import NEW_EXAMPLE_MEMO, PromptMessage, is_frozen, title_of

OLDEST = "the context is too small: the oldest chat items go first"
IN_STEPS = "the context is too small: the chat is cut in a large step, so that prompts begin alike"
BLANKED = "the finished prompt is too long for the context: chat items go from the top"


class Dropped(NamedTuple):
    """A chat item that is not in the prompt, what it would have cost (if that is known), and why it is not."""

    message: PromptMessage
    tokens: int | None
    reason: str

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.message.source)

    @property
    def budget_group(self) -> str:
        """Whether it is an example or part of the chat."""
        message = self.message
        example = message.source.get("kind") == "example" or message.memo == NEW_EXAMPLE_MEMO
        return "examples" if example else "history"


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What is left. ``required_tokens`` is set when it does not fit and nothing more may go."""

    messages: list[PromptMessage]
    total: int
    dropped: tuple[Dropped, ...] = ()
    required_tokens: int | None = None
    again: tuple[PromptMessage, ...] = ()
    """Lore at the end of the messages that is called up now, and whose own message went."""


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


def cut_in_steps(
    messages: Sequence[PromptMessage],
    total: int,
    limit: int,
    counter: MessageCounter,
    costs: CutCosts,
    stored: str | None,
    active: Collection[str] = (),
) -> Trimmed:
    """Drop chat items from the front in large steps, so that many prompts begin alike (``strategy="cache"``).

    Lore that was frozen in the chat goes with the message before it; if it is called up now, it is said again.

    Args:
        messages: The chat items, oldest first.
        total: Tokens of the whole prompt.
        limit: Tokens that it may have.
        counter: Counts messages.
        costs: The profile and the expected turns; the rest is filled in.
        stored: The memo of the first item that the prompt before had.
        active: Identities of lore that is called up now.
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
            message.content = ""
    else:
        if total > limit:
            return Trimmed(list(messages), total, tuple(dropped), total)
    if not dropped:
        return Trimmed(list(messages), total)
    return Trimmed([message for message in messages if message.content or message.multimodals], total, tuple(dropped))


def omissions_of(dropped: Sequence[Dropped]) -> Iterator[Omission]:
    """Report what was left out: one line for all neighbours, as a long chat may lose thousands of messages."""
    for (group, reason), run in groupby(dropped, key=lambda each: (each.budget_group, each.reason)):
        gone = list(run)
        costs = [each.tokens for each in gone]
        first, last = gone[0].title, gone[-1].title
        span = first if first == last else f"{first} to {last}"
        yield Omission(
            kind="example" if group == "examples" else "history",
            id=span,
            reason=reason,
            name=span if len(gone) == 1 else f"{len(gone)} messages ({span})",
            tokens=None if None in costs else sum(cost for cost in costs if cost is not None),
        )
