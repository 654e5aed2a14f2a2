"""Entries of the history as messages with a price."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify
from tavernkit._values import FrozenObject, LRUCache
from tavernkit.dialects._shapes import openai_part
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._chat.attachments import MEDIA_KEYS, Measure, ModelList, inline_media, names_of, shown_media
from tavernkit.silly_tavern._chat.core_chat import NAMES_FIELD, CoreMessage, name_prefix, role_of
from tavernkit.silly_tavern._chat_completion.layout import HistoryEntry, Injected, PlacedMessage
from tavernkit.silly_tavern._chat_completion.tools import ToolCalls, tool_calls
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._limits import LONG_TEXT_CHARACTERS
from tavernkit.silly_tavern._provenance import message_source, reason_of, source, title_of
from tavernkit.silly_tavern._token_counting.messages import MessageCounter

_BAD_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_]")
MAX_NAME_LENGTH = 64


def sanitized_name(name: str) -> str:
    """Return a name that is valid for the API: other characters become underscores, one per UTF-16 unit."""
    return _BAD_NAME_CHARACTER.sub(lambda found: "__" if found.group() > "\uffff" else "_", name)[:MAX_NAME_LENGTH]


class HistoryCache:
    """Messages made from chat lines without macros, tools and media, by one set of rules. They are never changed.

    Args:
        shared: The cache of all sets of rules.
    """

    __slots__ = ("_shared",)

    def __init__(self, shared: LRUCache[object, list[PlacedMessage]]) -> None:
        self._shared = shared

    def get(self, key: object) -> list[PlacedMessage] | None:
        """Return the message made from a line."""
        return self._shared.get((self, key))

    def put(self, key: object, made: list[PlacedMessage]) -> None:
        """Remember the message made from a line.

        Args:
            key: What it depends on besides the rules.
            made: The message.
        """
        self._shared.put((self, key), made)


PLAIN_EXTRA = frozenset(
    {
        *("api", "model", "gen_id", "reasoning", "reasoning_duration", "reasoning_signature", "reasoning_type"),
        *("token_count", "bias", "isSmallSys", "time_to_first_token", "tavernkit"),
    }
)
"""Keys of a line's ``extra`` that do not affect its message."""


def _never(_text: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class HistoryConverter:
    """Turns chat messages and injections into messages to be placed."""

    preset: Preset
    counter: MessageCounter
    expand: Callable[[str], str]
    user_name: str
    in_group: bool
    core: Sequence[CoreMessage]
    media_display: str = "list"
    measure: Measure | None = None
    model_list: ModelList = ()
    resolve: Callable[[str], str] = str
    with_tools: bool = False
    """True if past tool calls are sent as such."""
    cache: HistoryCache | None = None
    """Messages of earlier turns from builds with the same inputs."""
    leaves: Callable[[str], bool] = _never
    """Returns True for texts that ``expand`` does not change."""

    def content(self, message: CoreMessage) -> str:
        """Return the text of a chat message, with the name before it if the preset says so; macros unexpanded."""
        prefix = name_prefix(message.line, self.preset.names_behavior, user_name=self.user_name, in_group=self.in_group)
        return (prefix + message.text).replace("\r", "")

    def name(self, message: CoreMessage) -> str | None:
        """Return the name that a message is sent under, if the preset says so."""
        if self.preset.names_behavior != NAMES_FIELD or not message.line.name:
            return None
        return sanitized_name(message.line.name)

    def convert(self, entry: HistoryEntry, identifier: str, position: int) -> list[PlacedMessage]:
        """Expand an entry; a past tool call gives the call and its results, anything else one message.

        ``position`` counts chat messages in the core chat; it is not used for injections.
        """
        if isinstance(entry, Injected):
            return [self._injected(entry, identifier)]
        if self.with_tools:
            calls = tool_calls(entry, self.core, position, self.preset)
            if calls is not None:
                return self._tool_messages(entry, calls, identifier)
        cache, line = self.cache, entry.line
        if cache is None or type(entry.text) is not str or (line.extra and not line.extra.keys() <= PLAIN_EXTRA):
            return [self._message(entry, identifier, self.content(entry))]
        key = (identifier, entry.index, line.name, line.is_user, bool(line.force_avatar), entry.text, entry.additions)
        known = cache.get(key)
        if known is None:
            content = self.content(entry)
            known = [self._message(entry, identifier, content)]
            if len(entry.text) <= LONG_TEXT_CHARACTERS and self.leaves(content):
                known[0].kept = True
                cache.put(key, known)
        return known

    def _message(self, entry: CoreMessage, identifier: str, content: str) -> PlacedMessage:
        role, name = role_of(entry.line), self.name(entry)
        content = self.expand(content)
        placed = PlacedMessage(
            identifier=identifier,
            role=role,
            content=content,
            tokens=self.counter.message(role, content, name) if content or name else 0,
            source=_chat_source(entry),
            name=name,
            group="history",
            history_index=entry.index,
        )
        if entry.line.extra and not MEDIA_KEYS.isdisjoint(entry.line.extra):
            self._inline(placed, entry)
        return placed

    def _inline(self, placed: PlacedMessage, entry: CoreMessage) -> None:
        media = inline_media(
            entry.line,
            self.preset,
            default_display=self.media_display,
            measure=self.measure,
            resolve=self.resolve,
            model_list=self.model_list,
        )
        if media is not None:
            text = openai_part("text", placed.content)
            placed.parts = [text, *(each.part for each in media)]
            placed.tokens += sum(each.tokens for each in media)
            shown = shown_media(entry.line.extra, self.media_display)
            placed.source = {**placed.source, "reason": f"{reason_of(placed.source)}, with {names_of(shown)}"}

    def _tool_messages(self, entry: CoreMessage, calls: ToolCalls, identifier: str) -> list[PlacedMessage]:
        role = role_of(entry.line)
        texts = [role, json_stringify(list(calls.calls)), *([calls.reasoning] if calls.reasoning else [])]
        bundle = f"tools-{identifier}"
        found = [
            PlacedMessage(
                identifier=f"toolCall-{identifier}",
                role=role,
                content="",
                tokens=self.counter.texts(texts),
                source=_chat_source(entry, "tool call in the chat"),
                tool_calls=calls.calls,
                reasoning=calls.reasoning,
                group="history",
                bundle=bundle,
                history_index=entry.index,
            )
        ]
        found += [
            PlacedMessage(
                identifier=call_id,
                role="tool",
                content=result,
                # SillyTavern does not count the id that is sent with a result.
                tokens=self.counter.message("tool", result),
                source=_chat_source(entry, "result of a tool call in the chat"),
                tool_call_id=call_id,
                group="history",
                bundle=bundle,
                history_index=entry.index,
            )
            for call_id, result in calls.results
        ]
        return found

    def _injected(self, entry: Injected, identifier: str) -> PlacedMessage:
        if entry.frozen is not None:
            return self._frozen(entry.frozen, identifier)
        # Expanded a second time: its prompts were expanded before they were joined.
        content = self.expand(entry.content)
        return PlacedMessage(
            identifier=identifier,
            role=entry.role,
            content=content,
            tokens=self.counter.message(entry.role, content) if content else 0,
            source=injected_source(entry),
            group="history",
            depth=entry.depth,
            order=int(entry.order),
        )

    def _frozen(self, line: FrozenLine, identifier: str) -> PlacedMessage:
        return PlacedMessage(
            identifier=identifier,
            role=line.role,
            content=line.text,
            tokens=self.counter.message(line.role, line.text),
            source=frozen_source(line),
            group="history",
        )


def frozen_source(line: FrozenLine) -> FrozenObject:
    """Return the provenance of lore that became a line of the history."""
    title = f"World Info: {line.title}"
    entry = {"id": line.id, "name": line.title, "cause": line.cause}
    reason = f"{line.cause or 'fired'}, after message #{line.after}, where it stays"
    return source("injection", "frozen lore", line.id, title, reason, entries=[entry], after=line.after)


def injected_source(entry: Injected) -> FrozenObject:
    """Return the provenance of a message in the chat that is made from prompts."""
    if entry.frozen is not None:
        return frozen_source(entry.frozen)
    where = f"in the chat at depth {entry.depth}"
    parts = [prompt.source for prompt in entry.prompts] + [each.source("injection") for each in entry.extensions]
    if len(parts) == 1:
        only = parts[0]
        reason = (
            reason_of(only) if only.get("kind") == "lore" else f"{reason_of(only)}, {where}"
        )  # its title includes the place
        return {**only, "stage": "injection", "reason": reason}
    reason = f"{where}: " + "; ".join(f"{title_of(part)}: {reason_of(part)}" for part in parts)
    title = " + ".join(title_of(part) for part in parts)
    return source("injection", "injection", title, title, reason, parts=parts)


def _chat_source(entry: CoreMessage, reason: str = "message of the chat") -> FrozenObject:
    return message_source("compilation", entry.index, entry.line.name, reason, entry.additions)
