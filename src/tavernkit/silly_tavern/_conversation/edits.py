"""Changes of a chat that ask no model: what SillyTavern's editor and buttons do."""

from __future__ import annotations

import copy
import re
from typing import Final, Literal, Self

from tavernkit._arguments import require_choice
from tavernkit._text.js_values import trim
from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern._chat.core_chat import inline_bias, without_macros
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.chat_state import OF_ONE_RUN, ChatState, object_or_empty, scripted
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement

_BRANCH = re.compile(r" - Branch #\d+\Z")
NOTE_POSITIONS: Final = {"after": 0, "chat": 1, "before": 2}
ROLES: Final = {"system": 0, "user": 1, "assistant": 2}


class EditableChat:
    """A chat whose lines, swipes, author's note and members can be changed."""

    def __init__(self, state: ChatState) -> None:
        self.state = state

    @property
    def _is_untouched(self) -> bool:
        """True while there is only an unchanged greeting."""
        return len(self.state.turn_lines) == 1 and not self.state.header.get("tainted")

    def show_swipe(self, at: int) -> None:
        """Show a swipe of the last line, which must exist."""
        line = self.state.turn_lines[-1]
        # Leaving an unanswered greeting does not store its expanded text: its macros run again.
        if not self._is_untouched:
            chat_lines.leave_swipe(line)
        chat_lines.arrive_at_swipe(line, at)
        if len(self.state.turn_lines) == 1:
            with self.state.expanding() as state:
                line["mes"] = state.macros(chat_lines.text_of(line))

    def add_message(self, text: str, **keys: Json) -> JsonObject:
        """Store a message of the user without asking a model; scripts and macros run as when it is sent.

        Args:
            text: The message.
            keys: More keys of the line, or other values for them (``name``, ``force_avatar``, ``extra``).
        """
        line = typed_line(self.state, text)
        chat_lines.extra_of(line).update(object_or_empty(keys.pop("extra", None)))
        line.update(keys)
        self.add_line(line)
        return line

    def add_line(self, line: JsonObject) -> None:
        """Add a line in file format at the end, as a slash command does."""
        chat_lines.show(line)
        self.state.share_lines().append(line)
        self.state.header["tainted"] = True

    def add_swipe(self, text: str, *, show: bool = False) -> None:
        """Add a version of the last reply; its macros are expanded.

        Args:
            text: The text.
            show: Show it at once.
        """
        if not self.state.lines or not chat_lines.can_swipe(self.state.lines[-1]):
            return
        _add_swipe(self.state, self.state.lines[-1], text, show=show)

    def delete_range(self, start: int, end: int) -> None:
        """Delete lines ``start`` to ``end`` (included)."""
        del self.state.lines[self._place(start) : self._place(end) + 1]
        self.state.header["tainted"] = True

    def choose_greeting(self, index: int) -> None:
        """Show another greeting. 0 is the first message, 1 the first alternate.

        Raises:
            ConfigError: There is no such greeting, or the chat has already continued.
        """
        if len(self.state.lines) != 1:
            raise ConfigError("the greeting can be chosen only before anything else is said")
        swipes = chat_lines.swipes_of(self.state.lines[0])
        if not 0 <= index < len(swipes):
            raise ConfigError(f"there is no greeting {index}: the card has 0 to {len(swipes) - 1}")
        if index != chat_lines.swipe_id_of(self.state.lines[0]):
            self.show_swipe(index)

    def edit(self, index: int, text: str) -> None:
        """Replace the text of a line, as SillyTavern's editor does: scripts and macros run once.

        Args:
            index: The number of the line; -1 is the last.
            text: Its new text.
        """
        _edit_line(self.state, self._line(index), text)
        self.state.header["tainted"] = True

    def delete(self, index: int) -> None:
        """Delete a line; with a reply, the tool calls directly before it are deleted too."""
        at = self._place(index)
        start = at
        if not chat_lines.is_user(self.state.lines[at]):
            while start > 0 and chat_lines.is_tool_line(self.state.lines[start - 1]):
                start -= 1
        del self.state.lines[start : at + 1]
        self.state.header["tainted"] = True

    def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        del self.state.lines[self._place(index) :]
        self.state.header["tainted"] = True

    def delete_last(self, count: int = 1) -> None:
        """Delete the newest lines."""
        if count > 0:
            del self.state.lines[-count:]
            self.state.header["tainted"] = True

    def delete_swipe(self, swipe: int, index: int = -1) -> None:
        """Delete a swipe of a line; the only one stays.

        Args:
            swipe: The number of the swipe, from 0.
            index: The line; the last one by default.
        """
        chat_lines.delete_swipe(self._line(index), swipe)

    def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines ``start`` to ``end`` (included) out of prompts. A range beyond the chat does nothing."""
        self._set_hidden(start, end, hidden=True)

    def unhide(self, start: int, end: int | None = None) -> None:
        """Include hidden lines in prompts again.

        Args:
            start: The first line.
            end: The last line, included; only ``start`` by default.
        """
        self._set_hidden(start, end, hidden=False)

    def _set_hidden(self, start: int, end: int | None, *, hidden: bool) -> None:
        last = start if end is None else end
        if 0 <= start <= last < len(self.state.lines):
            # Showing them turns the program's own lines into ordinary ones, as in SillyTavern.
            for line in self.state.lines[start : last + 1]:
                line["is_system"] = hidden

    def set_note(
        self,
        prompt: str | None = None,
        *,
        depth: int | None = None,
        interval: int | None = None,
        position: Literal["after", "before", "chat"] | None = None,
        role: Literal["system", "user", "assistant"] | None = None,
    ) -> None:
        """Change the author's note of the chat; other values stay the same.

        Args:
            prompt: Its text.
            depth: Messages between it and the end of the chat.
            interval: Insert it every N user messages; 0 means never.
            position: In the chat, or before or after the main prompt.
            role: The role of its message in the chat.
        """
        for name, chosen, known in (("position", position, NOTE_POSITIONS), ("role", role, ROLES)):
            if chosen is not None:
                require_choice(name, chosen, [*known])
        changes: JsonObject = {
            "note_prompt": prompt,
            "note_depth": depth,
            "note_interval": interval,
            "note_position": NOTE_POSITIONS[position] if position is not None else None,
            "note_role": ROLES[role] if role is not None else None,
        }
        self.state.header.update((key, value) for key, value in changes.items() if value is not None)

    def mute(self, member: str) -> None:
        """Mute a member of the group."""
        avatar, group = self._member(member)
        if avatar not in group.disabled_members:
            self.state.change_group(disabled_members=(*group.disabled_members, avatar))

    def unmute(self, member: str) -> None:
        """Unmute a member of the group."""
        avatar, group = self._member(member)
        self.state.change_group(disabled_members=tuple(each for each in group.disabled_members if each != avatar))

    def _member(self, member: str) -> tuple[str, Group]:
        context = self.state.context()
        if context.group is None:
            raise ConfigError("there is no group: only a group has members")
        named = (avatar for avatar, card in context.members.items() if card.name == member)
        avatar = member if member in context.members else next(named, None)
        if avatar is None:
            raise ConfigError(f"{member!r} is not a member of the group: {', '.join(context.members)}")
        return avatar, context.group

    def branch(self, index: int) -> Self:
        """Return a copy of the chat that ends with this line, with a new name."""
        at = self._place(index)
        root = _BRANCH.sub("", self.state.chat_id)
        number = 1
        while f"{root} - Branch #{number}" in self.state.branches:
            number += 1
        name = f"{root} - Branch #{number}"
        self.state.branches.add(name)
        twin = copy.copy(self)
        twin.state = self.state.twin()
        saved = self.state.snapshot()
        lines = saved["lines"]
        assert isinstance(lines, list)
        saved["lines"] = lines[: at + 1]
        saved["chat_id"] = name
        for key in OF_ONE_RUN:  # the branch is opened
            saved.pop(key, None)
        object_or_empty(saved["chat_metadata"])["main_chat"] = self.state.chat_id
        twin.state.restore(saved)
        twin.state.branches = self.state.branches
        branches = chat_lines.extra_of(self.state.lines[at]).setdefault("branches", [])
        if isinstance(branches, list):
            branches.append(name)
        return twin

    def _place(self, index: int) -> int:
        count = len(self.state.lines)
        if not -count <= index < count:
            raise ConfigError(f"there is no line {index}: the chat has {count}")
        return index % count

    def _line(self, index: int) -> JsonObject:
        return self.state.lines[self._place(index)]


def typed_line(state: ChatState, text: str) -> JsonObject:
    """Return the line of a message that the user typed, after scripts and macros; the chat does not have it yet."""
    with state.expanding() as workspace:
        bias = inline_bias(text, workspace.warn)
        text = workspace.macros.typed(scripted(workspace, text, RegexPlacement.USER_INPUT))
        name = workspace.context.user_name
    if bias:
        text = without_macros(text)
    return chat_lines.user_line(name, text, state.now(), bias=bias, avatar=state.user_avatar)


def _edit_line(state: ChatState, line: JsonObject, text: str) -> None:
    """Replace the text of a line; scripts and macros run once."""
    placement, speaker = RegexPlacement.AI_OUTPUT, str(line.get("name") or "")
    if chat_lines.is_narrator(line):
        placement, speaker = RegexPlacement.SLASH_COMMAND, None
    elif chat_lines.is_user(line):
        placement = RegexPlacement.USER_INPUT
    with state.expanding(speaker=chat_lines.speaker_of(line)) as workspace:
        text = scripted(workspace, text, placement, is_edit=True, character=speaker)
        if workspace.context.settings.power_user.trim_spaces:
            text = trim(text)
        bias = inline_bias(text, workspace.warn)
        if bias:
            text = without_macros(text)
        line["mes"] = workspace.macros(text)
    # A reply gets a null, and its bias is lost; other lines get an empty text if they have none.
    chat_lines.extra_of(line)["bias"] = bias if chat_lines.may_hold_bias(line) else None
    state.take_reasoning(line)
    swipes, at = chat_lines.swipes_of(line), chat_lines.swipe_id_of(line)
    if swipes and at < len(swipes):
        swipes[at] = line["mes"]


def _add_swipe(state: ChatState, line: JsonObject, text: str, *, show: bool) -> None:
    """Add a version of a line; its macros are expanded."""
    chat_lines.show(line)
    with state.expanding(speaker=chat_lines.speaker_of(line)) as workspace:
        chat_lines.swipes_of(line).append(workspace.macros(text))
    info: JsonObject = {"send_date": state.now(), "extra": {}}
    chat_lines.infos_of(line)[-1] = info
    if show:
        chat_lines.leave_swipe(line)
        chat_lines.arrive_at_swipe(line, len(chat_lines.swipes_of(line)) - 1)


def remove_last_round(lines: list[JsonObject]) -> None:
    """Remove the replies at the end that belong to one round of a group."""
    if not lines or chat_lines.is_user(lines[-1]):
        return
    round_id = chat_lines.extra_of(lines.pop()).get("gen_id")
    while round_id is not None and lines:
        line = lines[-1]
        if chat_lines.is_user(line) or chat_lines.is_hidden(line):
            return
        if chat_lines.extra_of(line).get("gen_id") != round_id:
            return
        lines.pop()
