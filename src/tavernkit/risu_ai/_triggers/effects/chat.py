"""The messages of the run's chat, the prompt (added texts, stopping, sending again), and what edit runs change.

Runs in the modes ``display`` and ``request`` only edit a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, json_parse, json_stringify, to_number, to_string
from tavernkit._values import Json
from tavernkit.risu_ai._js import exact_index, slice_index
from tavernkit.risu_ai._triggers.conditions import search_messages
from tavernkit.risu_ai._triggers.effects.arrays import element_text, indexed
from tavernkit.risu_ai._triggers.limits import RunAbortedError, TriggerFailedError
from tavernkit.risu_ai._triggers.program import EffectTable
from tavernkit.risu_ai._triggers.variables import Value

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()


def _impersonate(run: Run, effect: Effect, text: str) -> None:
    role = effect.fields.get("role")
    if isinstance(role, str) and role in {"user", "char"}:  # other roles do nothing
        run.add_message(role, text)


@effects.effect("impersonate")
def impersonate_v1(run: Run, effect: Effect) -> None:
    """Add a message of the user or the character."""
    _impersonate(run, effect, run.cbs(effect.fields.get("value")))


@effects.effect("v2Impersonate")
def impersonate(run: Run, effect: Effect) -> None:
    """Add a message of the user or the character."""
    _impersonate(run, effect, run.value(effect, "value"))


def _cut(run: Run, start: float, end: float) -> None:
    count = len(run.messages)
    run.cut_messages(run.messages[slice_index(start, count) : slice_index(end, count)])


@effects.effect("cutchat")
def cut_chat_v1(run: Run, effect: Effect) -> None:
    """Keep a slice of the messages; an end that is not a number keeps none."""
    start, end = run.cbs(effect.fields.get("start")), run.cbs(effect.fields.get("end"))
    _cut(run, to_number(start), to_number(end))


@effects.effect("v2CutChat")
def cut_chat(run: Run, effect: Effect) -> None:
    """Keep a slice of the messages; an end that is not a number keeps all."""
    start, end = run.number(effect, "start"), run.number(effect, "end")
    _cut(run, start, len(run.messages) if end != end else end)


def _modify(run: Run, number: float, text: str) -> None:
    index = exact_index(number, len(run.messages))
    if index is not None:
        run.set_message(index, text)


@effects.effect("modifychat")
def modify_chat_v1(run: Run, effect: Effect) -> None:
    """Replace the text of a message."""
    index = to_number(run.cbs(effect.fields.get("index")))
    _modify(run, index, run.cbs(effect.fields.get("value")))


@effects.effect("v2ModifyChat")
def modify_chat(run: Run, effect: Effect) -> None:
    """Replace the text of a message."""
    index = run.number(effect, "index")
    _modify(run, index, run.value(effect, "value"))


@effects.effect("v2GetLastMessage")
def get_last_message(run: Run, effect: Effect) -> None:
    """Read the last message."""
    run.output(effect, run.messages[-1].data if run.messages else "null")


@effects.effect("v2GetMessageAtIndex")
def get_message(run: Run, effect: Effect) -> None:
    """Read a message."""
    index = exact_index(run.number(effect, "index"), len(run.messages))
    run.output(effect, "null" if index is None else run.messages[index].data)


@effects.effect("v2GetMessageCount")
def get_message_count(run: Run, effect: Effect) -> None:
    """Count the messages."""
    run.output(effect, str(len(run.messages)))


def _last_of(run: Run, role: str) -> str:
    return next((message.data for message in reversed(run.messages) if message.role == role), "null")


@effects.effect("v2GetLastUserMessage")
def get_last_user_message(run: Run, effect: Effect) -> None:
    """Read the user's last message."""
    run.output(effect, _last_of(run, "user"))


@effects.effect("v2GetLastCharMessage")
def get_last_character_message(run: Run, effect: Effect) -> None:
    """Read the character's last message; the greeting does not count."""
    run.output(effect, _last_of(run, "char"))


@effects.effect("v2GetFirstMessage")
def get_first_message(run: Run, effect: Effect) -> None:
    """Read the chosen greeting. A missing one unsets the variable, so that its default is read next."""
    greeting: Value = run.character.greeting(run.chat.greeting_index)
    run.output(effect, UNDEFINED if greeting is None else greeting)


@effects.effect("v2QuickSearchChat")
def search_chat(run: Run, effect: Effect) -> None:
    """Store whether a text is among the newest messages."""
    value, depth = run.value(effect, "value"), run.number(effect, "depth")
    found = depth == depth and search_messages(
        run.messages, value, effect.fields.get("condition"), depth, run.world.warn
    )
    run.output(effect, "1" if found else "0")


@effects.effect("systemprompt")
def system_prompt_v1(run: Run, effect: Effect) -> None:
    """Add a text to the prompt."""
    run.add_prompt(effect.fields.get("location", "undefined"), run.cbs(effect.fields.get("value")))


@effects.effect("v2SystemPrompt")
def system_prompt(run: Run, effect: Effect) -> None:
    """Add a text to the prompt."""
    run.add_prompt(effect.fields.get("location", "undefined"), run.value(effect, "value"))


@effects.effect("stop", "v2StopPromptSending")
def stop_sending(run: Run, effect: Effect) -> None:
    """Send nothing after this run; the run itself continues."""
    run.stop_sending = True


@effects.effect("sendAIprompt", "v2SendAIprompt", low_level=True)
def send_again(run: Run, effect: Effect) -> None:
    """Let the model answer again after the run."""
    run.send_ai_prompt = True


@effects.effect("v2GetDisplayState")
def get_display(run: Run, effect: Effect) -> None:
    """Read the text."""
    if not run.display_mode:
        raise RunAbortedError
    run.output(effect, "null" if run.display_data is None else run.display_data)


@effects.effect("v2SetDisplayState")
def set_display(run: Run, effect: Effect) -> None:
    """Replace the text."""
    if not run.display_mode:
        raise RunAbortedError
    run.display_data = run.world.budget.text(run.value(effect, "value"))


_ROLES = frozenset({"user", "assistant", "system"})


def _messages(run: Run) -> Json:
    if not run.display_mode:
        raise RunAbortedError
    return json_parse("null" if run.display_data is None else run.display_data)


def _field(run: Run, effect: Effect, name: str) -> None:
    entry = indexed(_messages(run), run.number(effect, "index"))
    value = entry.get(name) if isinstance(entry, dict) else None
    run.output(effect, element_text(value))


@effects.effect("v2GetRequestState")
def get_content(run: Run, effect: Effect) -> None:
    """Read the text of a message."""
    _field(run, effect, "content")


@effects.effect("v2GetRequestStateRole")
def get_role(run: Run, effect: Effect) -> None:
    """Read the role of a message."""
    _field(run, effect, "role")


def _set_field(run: Run, effect: Effect, messages: Json, name: str, text: str) -> None:
    entry = indexed(messages, run.number(effect, "index"))
    if not isinstance(entry, dict):
        raise TriggerFailedError("there is no such message in the request")
    entry[name] = text


@effects.effect("v2SetRequestState")
def set_content(run: Run, effect: Effect) -> None:
    """Replace the text of a message."""
    messages, text = _messages(run), run.value(effect, "value")
    _set_field(run, effect, messages, "content", text)
    run.display_data = run.world.budget.text(json_stringify(messages))


@effects.effect("v2SetRequestStateRole")
def set_role(run: Run, effect: Effect) -> None:
    """Replace the role of a message with another valid one."""
    messages, role = _messages(run), run.value(effect, "value")
    # Only a valid role needs the message; the list is written again in any case.
    if role in _ROLES:
        _set_field(run, effect, messages, "role", role)
    run.display_data = run.world.budget.text(json_stringify(messages))


@effects.effect("v2GetRequestStateLength")
def get_length(run: Run, effect: Effect) -> None:
    """Count the messages."""
    messages = _messages(run)
    run.output(effect, to_string(len(messages) if isinstance(messages, list) else "undefined"))
