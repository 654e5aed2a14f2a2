"""The list of messages a template prints into: the push rule, cache points, depths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from typing import TypeVar

from tavernkit._macros import size_of
from tavernkit._text.traced import join
from tavernkit._values import FrozenObject
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, explained
from tavernkit.risu_ai._limits import MAX_CACHE_WORK, MAX_FILLED_TEXT, MAX_PRINTED_MESSAGES

T = TypeVar("T")

AUTOMATIC_CACHE_POINTS = 3


def merges_system(model: str) -> bool:
    """True if neighbouring system messages are joined for a model."""
    return model.startswith(("gpt", "claude")) or model in {"openrouter", "reverse_proxy"}


class Printer:
    """Collects messages. Joining edits the message that is already there, wherever else it is shown.

    A card that is printed again joins a message with itself, which doubles it: what would become too long is left out.
    """

    def __init__(self, model: str, warn: Warn = log_warning, keep: Callable[[int], bool] = lambda _size: True) -> None:
        self._messages: list[PromptMessage] = []
        self._merges = merges_system(model)
        self._warn, self._keep = warn, keep
        self._warned = False
        self._joined: list[str] = []  # what is still to be added to the last message, so that it is copied once
        self._merged: list[FrozenObject] = []
        self._length = 0
        self._cache_left = MAX_CACHE_WORK

    @property
    def messages(self) -> list[PromptMessage]:
        """What is printed."""
        self._finish_last()
        return self._messages

    def push(self, messages: Iterable[PromptMessage], place: str = "") -> None:
        """Print messages; blank ones are left out. ``place`` names the place in explanations."""
        for message in messages:
            last = self._messages[-1] if self._messages else None
            if message is last:
                self._finish_last()
            if message.blank:
                continue
            if not self._keep(size_of(message.content)):  # a message that is shown again is sent again
                self._leave_out("the template prints more than the build may keep")
                continue
            if last is not None and self._merges and _joinable(last, message):
                self._join(message, place)
            else:
                self._append(message, place)

    def _join(self, message: PromptMessage, place: str) -> None:
        length = self._length + 2 + len(message.content)
        if length > MAX_FILLED_TEXT:
            self._leave_out(f"a message of the template would have more than {MAX_FILLED_TEXT} characters")
            return
        message.printed += (place,)
        self._length = length
        self._joined += ["\n\n", message.content]
        self._merged.append(explained(message.source, place, place=place) if place else message.source)

    def _append(self, message: PromptMessage, place: str) -> None:
        if len(self._messages) >= MAX_PRINTED_MESSAGES:
            self._leave_out(f"the template prints more than {MAX_PRINTED_MESSAGES} messages")
            return
        message.printed += (place,)
        self._finish_last()
        self._messages.append(message)
        self._length = len(message.content)

    def _finish_last(self) -> None:
        if self._joined:
            last = self._messages[-1]
            last.content = join("", [last.content, *self._joined])
            last.merged += tuple(self._merged)
            self._joined, self._merged = [], []

    def _leave_out(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"{why}: the rest is left out")

    def mark_cache(self, depth: float, role: str) -> None:
        """Put a cache point on the latest messages of a role."""
        for message in reversed(self._messages):
            if depth <= 0 or self._cache_left <= 0:
                break
            self._cache_left -= 1
            if role == "all" or role == message.role:
                message.cache_point = True
                depth -= 1
        if self._cache_left == 0:
            self._cache_left = -1
            self._warn("the cache cards of the template take too long: the rest of them mark nothing")


def _joinable(last: PromptMessage, message: PromptMessage) -> bool:
    return last.role == message.role == "system" and last.memo == message.memo and last.name == message.name


def systemize(messages: Iterable[PromptMessage]) -> None:
    """Turn chat messages into system messages that name the speaker; the messages themselves are changed."""
    for message in messages:
        if message.role not in {"user", "assistant"}:
            continue
        if message.name is not None and message.name.startswith("example_"):
            message.content = message.name + ": " + message.content
        elif "nameAdded" not in message.attr:
            message.content = message.role + ": " + message.content
        message.role, message.memo, message.name = "system", None, None


def splice(items: MutableSequence[T], index: float, item: T) -> None:
    """Insert as JavaScript's ``splice`` does: a negative index counts from the end, no number is the start."""
    if index != index:
        index = 0
    place = max(len(items) + index, 0) if index < 0 else min(index, len(items))
    items.insert(int(place), item)
