"""Messages, and the line of the reply, in the format of a text prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, overload

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added, join
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._limits import LONG_TEXT_CHARACTERS
from tavernkit.silly_tavern._provenance import TITLES, source
from tavernkit.silly_tavern._templates.formatting import ANY, FIRST, LAST, InstructFormatter, Line
from tavernkit.silly_tavern._templates.templates import NOBODY
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage, chat_message
from tavernkit.silly_tavern._text_completion.plan import Origin, Segment, text_of
from tavernkit.silly_tavern._token_counting.messages import TextCounter


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Writes messages with instruct sequences, or (without ``formatter``) as lines with names.

    ``constant`` is True if equal messages between the first and the last one are always written alike. Lines that a
    source map does not ask for are left plain.
    """

    formatter: InstructFormatter | None
    character_name: str
    constant: bool = False

    def item(self, entry: ChatEntry | None, place: int = ANY, *, unfinished: bool = False) -> HistoryItem:
        """Write an entry of the chat; None is that of an empty chat."""
        if entry is None:
            return HistoryItem(None, [])
        constant = plain = False
        if isinstance(entry, CoreMessage):
            constant, plain = self.constant and place == ANY, bool(entry.text) and type(entry.text) is str
            entry_message = chat_message(entry)
        else:
            entry_message = entry
        text = self._write(entry_message, place, unfinished=unfinished, constant=constant, untraced=plain)
        kept = constant and plain and len(entry_message.text) <= LONG_TEXT_CHARACTERS
        return HistoryItem(entry, [Segment(text, entry_message.origin)], constant=kept)

    def _write(self, message: TextMessage, place: int, *, unfinished: bool, constant: bool, untraced: bool) -> str:
        """Write a message; an ``unfinished`` one ends with its text."""
        if self.formatter is None:
            return self._line(message, unfinished=unfinished)
        # Texts injected as the system have no name: in a sequence, ``{{name}}`` is then the character's.
        name = message.name if message.is_user else message.name or self.character_name
        line = Line(name, message.text, message.is_user, message.narrator, message.forced_avatar)
        written = self.formatter.message(line, place, constant=constant, untraced=untraced)
        return written.unfinished if unfinished else written.text

    def _line(self, message: TextMessage, *, unfinished: bool) -> str:
        named = message.name and not message.narrator
        text = join("", (message.name, ": ", message.text, "\n") if named else (message.text, "\n"))
        # Cut after the last occurrence of the text: an empty text occurs at the very end.
        return text[: text.rindex(message.text) + len(message.text)] if unfinished else text


class HistoryItem:
    """One message of the history, as written.

    Nothing changes it: if it is ``constant``, it is used in later turns.
    """

    __slots__ = ("_counted", "constant", "entry", "segments", "text")

    def __init__(self, entry: ChatEntry | None, segments: list[Segment], *, constant: bool = False) -> None:
        self.entry = entry
        """Its message; the only item of an empty chat has none, and no segment."""
        self.segments = segments
        self.text = segments[0].text if segments else ""
        self.constant = constant
        self._counted: tuple[object, int] = (None, 0)

    def tokens(self, counter: TextCounter) -> int:
        """Return the tokens of its text, which are kept for other builds with the same tokenizer."""
        by, tokens = self._counted
        if by is not counter.count:
            tokens = counter.text(self.text)
            self._counted = counter.count, tokens
        return tokens


KnownItems: TypeAlias = Mapping[int, HistoryItem]
"""Items by the identities of their messages, which they keep alive."""


class HistoryItems(Sequence[HistoryItem]):
    """The items of a chat, newest first. Each is written when it is asked for: most of a long chat never is.

    Args:
        entries: The messages.
        writer: Writes them.
        places: The places in the chat of those that are written in another way there.
        unfinished: The newest one ends with its text.
        known: Items of an earlier build by the same rules, by the identities of their messages.
    """

    __slots__ = ("_known", "_places", "_unfinished", "entries", "made", "writer")

    def __init__(
        self,
        entries: Sequence[ChatEntry | None],
        writer: HistoryWriter,
        places: Mapping[int, int],
        *,
        unfinished: bool,
        known: KnownItems,
    ) -> None:
        self.entries = entries
        self.writer = writer
        self.made: dict[int, HistoryItem] = {}
        """The items that were asked for, by the identities of their messages."""
        self._places = places
        self._unfinished = unfinished
        self._known = known

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> HistoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> list[HistoryItem]: ...
    def __getitem__(self, index: int | slice) -> HistoryItem | list[HistoryItem]:
        """Return the item, or items, at a place of the chat."""
        if isinstance(index, slice):
            return [self._item(place) for place in range(len(self.entries))[index]]
        return self._item(index if index >= 0 else index + len(self.entries))

    def _item(self, place: int) -> HistoryItem:
        entry = self.entries[place]
        item = self.made.get(id(entry))
        if item is None:
            where = self._places.get(place, ANY)
            item = self._known.get(id(entry))
            if item is None or item.entry is not entry or where != ANY or not item.constant:
                item = self.writer.item(entry, where, unfinished=self._unfinished and place == 0)
            self.made[id(entry)] = item
        return item


def history_items(
    newest_first: Sequence[ChatEntry], writer: HistoryWriter, *, generation_type: str, known: KnownItems
) -> HistoryItems:
    """The items of a chat, newest first; an empty chat has one without text.

    Args:
        newest_first: The messages.
        writer: Writes them.
        generation_type: The type of generation.
        known: Items of an earlier build by the same rules.
    """
    if not newest_first:
        return HistoryItems((None,), writer, {}, unfinished=False, known={})
    continuing = generation_type == "continue"
    newest_user = -1
    if generation_type != "impersonate":
        newest_user = next((index for index, entry in enumerate(newest_first) if is_user(entry)), -1)
    # If the oldest message is the user's newest, the last sequence wins, even if it is empty and the first one is not.
    places = {len(newest_first) - 1: FIRST, newest_user: LAST}
    if continuing:
        places[0] = LAST
    return HistoryItems(newest_first, writer, places, unfinished=continuing, known=known)


def entries_of(items: Sequence[HistoryItem]) -> Sequence[ChatEntry | None]:
    """Return the messages of items, without writing them."""
    return items.entries if isinstance(items, HistoryItems) else [item.entry for item in items]


def is_user(entry: ChatEntry | None) -> bool:
    """Return True if an entry counts as the user's: injections with the user's role do, and post-history texts."""
    if entry is None:
        return False
    return entry.line.is_user if isinstance(entry, CoreMessage) else entry.is_user


REPLY = Origin(
    "replyLine",
    "assistant",
    source("compilation", "reply line", "replyLine", "the line of the reply", "the reply follows it"),
    "replyLine",
)
QUIET = Origin(
    "quietPrompt",
    "system",
    source("compilation", "quiet prompt", "quietPrompt", TITLES["quietPrompt"], "asked for in this generation only"),
    "quietPrompt",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLine:
    """The line that is added to the newest message.

    ``answers_user`` is True if the stored chat ends with a user message, ``only_message`` if it has just one.
    """

    generation_type: str
    user_name: str
    character_name: str
    formatter: InstructFormatter | None
    bias: str = ""
    quiet_prompt: str = ""
    quiet_name: str = ""
    loud: bool = False
    force_name: bool = True
    answers_user: bool = False
    only_message: bool = False

    def add_to(self, segments: list[Segment]) -> None:
        """Add the line to an item's segments."""
        if self.quiet_prompt:
            segments.append(Segment(self._quiet_text(), QUIET))
            if self.formatter is None and not self.loud:
                return
        if self.formatter is not None:
            if self.generation_type != "continue":
                segments.append(Segment(self._instruct_line(self.formatter), REPLY))
        else:
            self._add_names(segments)

    def alone(self) -> str:
        """Return the line alone, for counting."""
        segments: list[Segment] = []
        self.add_to(segments)
        return text_of(segments)

    def _quiet_text(self) -> str:
        if self.formatter is None:
            return "\n" + self.quiet_prompt
        return self.formatter.message(Line(self.user_name, self.quiet_prompt, narrator=True)).text

    def _instruct_line(self, formatter: InstructFormatter) -> str:
        impersonate = self.generation_type == "impersonate"
        quiet = bool(self.quiet_prompt) and self.generation_type == "quiet"
        if quiet and not self.loud and not impersonate:
            name = self.quiet_name or NOBODY
        else:
            name = self.user_name if impersonate else self.character_name
        return formatter.reply_line(name, impersonate=impersonate, bias=self.bias, quiet=quiet, loud=self.loud)

    def _add_names(self, segments: list[Segment]) -> None:
        continuing = self.generation_type == "continue"
        if self.generation_type == "impersonate":
            _end_line(segments)
            segments.append(Segment(self.user_name + ":", REPLY))
        if self.force_name and not (continuing and self.only_message):
            # On continue the message follows, with its own name: "Vesna:Vesna: …", as in SillyTavern.
            _end_line(segments)
            if not (continuing and self.answers_user):
                segments.append(Segment(self.character_name + added(":", "always_force_name2"), REPLY))


def _end_line(segments: list[Segment]) -> None:
    if not text_of(segments).endswith("\n"):
        segments.append(Segment("\n", REPLY))
