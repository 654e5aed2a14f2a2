"""Runs triggers and Lua in a build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tavernkit._text.js_values import to_string
from tavernkit._text.traced import is_tracing
from tavernkit._text.traced_changes import rewritten
from tavernkit._values import Json, is_object
from tavernkit.risu_ai._budget import Dropped, omissions_of
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._chat.chat_log import with_messages, with_text
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, source_of
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._regex_scripts.script import ScriptMode
from tavernkit.risu_ai._triggers.engine import RunOptions
from tavernkit.risu_ai._triggers.host import RefusingHost
from tavernkit.risu_ai._triggers.result import Reloads, StoredState, TriggerResult
from tavernkit.risu_ai.errors import TriggerError

if TYPE_CHECKING:
    from tavernkit.risu_ai._state import RisuState

TriggerMode = Literal["start", "input", "output", "manual"]

LUA_EDIT, REQUEST_TRIGGER = "Lua editRequest", "request trigger"
_EDITED = {
    LUA_EDIT: source_of("triggers", LUA_EDIT, "a Lua listener changed or added it"),
    REQUEST_TRIGGER: source_of("triggers", REQUEST_TRIGGER, "a request trigger changed or added it"),
}

_EDIT_KINDS: dict[ScriptMode, str] = {"editinput": "editInput", "editoutput": "editOutput"}


def run_build_triggers(
    state: RisuState, mode: TriggerMode, *, name: str = "", trigger_id: str | None = None
) -> TriggerResult | None:
    """Run the triggers of the speaking character and the modules on the chat, and store their changes.

    A ``manual`` run uses those with a name; ``trigger_id`` is the id of the element that was clicked.

    Returns None if there are none, if a trigger aborted the run, or if one failed (which raises in a send and in strict
    mode): variables written before that are kept.
    """
    if not has_triggers(state):
        return None
    try:
        result = state.trigger_engine.run(
            state.texts.context,
            mode,
            name=name,
            trigger_id=trigger_id,
            **_options(state, strict=state.context.strict),
        )
    except TriggerError as error:
        if error.stored is not None:
            _store(state, error.stored)
        raise
    _store(state, result.applied(), result.reloads)
    if result.error is not None and state.sending:
        raise result.error
    return result if result.ok else None


def edit_text(state: RisuState, text: str, mode: ScriptMode, index: int) -> str:
    """Let Lua listeners change a text before its scripts run. In a group, only those of modules run."""
    kind = _EDIT_KINDS.get(mode)
    if kind is None or not has_triggers(state):
        return text
    context = state.texts.context
    result = state.trigger_engine.edit(
        context.replace(speaker=None) if state.in_group else context, kind, text, index=index, **_options(state)
    )
    _store(state, result.stored, result.reloads)
    return rewritten(to_string(result.data), text, "Lua")


def click_button(state: RisuState, name: str) -> None:
    """Call the Lua handlers of a button and store their changes; raises if a script could not be loaded."""
    result = state.trigger_engine.click(state.texts.context, name, **_options(state, strict=state.context.strict))
    _store(state, result.stored, result.reloads)
    if result.error is not None:
        raise result.error


def run_command(state: RisuState, line: str) -> bool:
    """Run a command line and store its changes; False if a command is unknown. Raises if a command failed."""
    result = state.trigger_engine.command(state.texts.context, line, **_options(state, strict=state.context.strict))
    _store(state, result.stored, result.reloads)
    if result.error is not None:
        raise result.error
    return result.value is not False


def shown_text(state: RisuState, index: int) -> str:
    """Return what the screen would show of a message, or of the greeting (-1).

    Macros write nothing here, but Lua listeners may: RisuAI lets them set variables, and nothing else.
    """
    messages, context = state.chat.messages, state.texts.context
    message = messages[index] if 0 <= index < len(messages) else None
    text = state.character.greeting(state.chat.greeting_index) or "" if message is None else message.data
    shown = context.replace(chat_index=index, writes="remove", display=True, first_message=message is None)
    text = state.texts.engine.expand(text, shown, warn=state.warn)
    edited = state.trigger_engine.edit_text(context, "editDisplay", text, index=index, **_options(state))
    edited.stored.save_variables(state.variables)
    result = state.runner.run(
        to_string(edited.data),
        "editdisplay",
        state.scripts,
        context.replace(first_message=message is None),
        index=index,
        chat_role="" if message is None else message.role,
        warn=state.warn,
    )
    return result.text


def edit_list(state: RisuState, messages: list[PromptMessage]) -> list[PromptMessage]:
    """Let Lua's ``editRequest`` listeners change the finished list: those of the member who speaks, in a group."""
    if not has_triggers(state):
        return messages
    given: list[Json] = [message.to_json() for message in messages]
    context = state.texts.context.replace(char=state.texts.context.speaker)
    result = state.trigger_engine.edit(context, "editRequest", given, **_options(state))
    _store(state, result.stored, result.reloads)
    if result.data == given:
        return messages
    edited = _read(result.data, messages, LUA_EDIT)
    kept = {(message.role, message.content) for message in edited}
    gone = (message for message in messages if (message.role, message.content) not in kept)
    for omission in omissions_of([Dropped(message, None, "a Lua listener changed or removed it") for message in gone]):
        state.omit(omission)
    return edited


def edit_request(state: RisuState, messages: list[PromptMessage]) -> list[PromptMessage]:
    """Run the ``request`` triggers over the messages of a request; groups have none."""
    if state.in_group or not has_triggers(state):
        return messages
    given = [message.to_json() for message in messages]
    edited = state.trigger_engine.edit_request(state.texts.context, given, **_options(state))
    return messages if edited == given else _read([*edited], messages, REQUEST_TRIGGER)


def has_triggers(state: RisuState) -> bool:
    """Return True if the character or a module has triggers."""
    modules = state.texts.context.enabled_modules
    return bool(state.fields.triggers) or any(module.raw.get("trigger") for module in modules)


def _options(state: RisuState, *, strict: bool = False) -> RunOptions:
    host = state.context.trigger_host
    return {
        "host": host if host is not None else RefusingHost(),
        "count_tokens": state.counter.text,
        "selected_persona": state.context.settings.selected_persona,
        "warn": state.warn,
        "strict": strict,
    }


def _store(state: RisuState, stored: StoredState, reloads: Reloads | None = None) -> None:
    """Store the changes of a run: variables, the chat, the character, personas and settings."""
    if reloads is not None and reloads.screen:
        state.runner.forget()
    stored.save_variables(state.variables)
    context: CBSContext = stored.context
    state.texts.change(personas=context.personas, settings=context.settings)
    if context.character is not None and context.character.id == state.context.owner.id:
        state.texts.change(char=context.character)
    if isinstance(context.speaker, RisuCharacter) and context.speaker.id == state.character.id:
        state.texts.change(speaker=context.speaker)
    if context.chat is not state.chat:
        chat = _traced(context.chat, state.chat) if is_tracing() else context.chat
        state.see_chat(state.services.chats.with_ids(chat))


def _traced(chat: RisuChat, before: RisuChat) -> RisuChat:
    """Return the chat with the origins of its texts, which are lost in Lua."""
    known = {message.data: message.data for message in before.messages}
    messages: list[RisuMessage] = []
    for place, message in enumerate(chat.messages):
        near = before.messages[place].data if place < len(before.messages) else ""
        messages.append(with_text(message, rewritten(message.data, known.get(message.data, near), "trigger")))
    return with_messages(chat, messages)


def _read(data: Json, before: Sequence[PromptMessage], editor: str) -> list[PromptMessage]:
    """Read an edited list; unchanged messages keep their sources."""
    if not isinstance(data, list):
        return list(before)
    known = {(message.role, message.content): message for message in before}
    found: list[PromptMessage] = []
    for item in data:
        if not is_object(item):
            continue
        message = PromptMessage.from_json(item)
        old = known.get((message.role, message.content))
        message.source = _EDITED[editor] if old is None else old.source
        message.merged = () if old is None else old.merged
        message.printed = () if old is None else old.printed
        near = before[len(found)].content if len(found) < len(before) else ""
        message.content = rewritten(message.content, near if old is None else old.content, editor)
        found.append(message)
    return found
