"""Changes of lines that ask no model: what SillyTavern's editor and buttons do."""

from __future__ import annotations

from tavernkit._text.js_values import trim
from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern._chat.core_chat import inline_bias, without_macros
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.chat_state import ChatState, object_or_empty, scripted
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement


def typed_line(state: ChatState, text: str, keys: dict[str, Json]) -> JsonObject:
    """Return the line of a message that the user typed, after scripts and macros.

    Args:
        state: The chat, which does not have it yet.
        text: The message.
        keys: More keys of the line, or other values for them.
    """
    with state.expanding() as workspace:
        bias = inline_bias(text, workspace.warn)
        text = workspace.macros.typed(scripted(workspace, text, RegexPlacement.USER_INPUT))
        name = workspace.context.user_name
    if bias:
        text = without_macros(text)
    line = chat_lines.user_line(name, text, state.now(), bias=bias, avatar=state.user_avatar)
    chat_lines.extra_of(line).update(object_or_empty(keys.pop("extra", None)))
    line.update(keys)
    return line


def edit_line(state: ChatState, line: JsonObject, text: str) -> None:
    """Replace the text of a line; scripts and macros run once."""
    placement = RegexPlacement.USER_INPUT if chat_lines.is_user(line) else RegexPlacement.AI_OUTPUT
    if chat_lines.is_narrator(line):
        placement = RegexPlacement.SLASH_COMMAND
    with state.expanding(speaker=_speaker(line)) as workspace:
        text = scripted(workspace, text, placement, is_edit=True, character=str(line.get("name") or ""))
        if workspace.context.settings.power_user.trim_spaces:
            text = trim(text)
        bias = inline_bias(text, workspace.warn)
        if bias:
            text = without_macros(text)
        line["mes"] = workspace.macros(text)
    chat_lines.extra_of(line)["bias"] = bias if chat_lines.may_hold_bias(line) else None
    state.take_reasoning(line)
    swipes, at = chat_lines.swipes_of(line), chat_lines.swipe_id_of(line)
    if swipes and at < len(swipes):
        swipes[at] = line["mes"]


def add_swipe(state: ChatState, line: JsonObject, text: str, *, show: bool) -> None:
    """Add a version of a line; its macros are expanded."""
    chat_lines.show(line)
    with state.expanding(speaker=_speaker(line)) as workspace:
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


def _speaker(line: JsonObject) -> str | None:
    """Return the file name of the member of a group who said a line."""
    avatar = line.get("original_avatar")
    return avatar if isinstance(avatar, str) else None
