"""The messages of the run's chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, to_number
from tavernkit.risu_ai._js import exact_index, slice_index
from tavernkit.risu_ai._triggers.conditions import search_messages
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.variables import Value

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()


def _impersonate(run: Run, effect: Effect, text: str) -> None:
    role = effect.fields.get("role")
    if isinstance(role, str) and role in {"user", "char"}:
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
    """Keep a slice of the messages."""
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
    """Read the chosen greeting."""
    greeting: Value = run.character.greeting(run.chat.greeting_index)
    run.output(effect, UNDEFINED if greeting is None else greeting)


@effects.effect("v2QuickSearchChat")
def search_chat(run: Run, effect: Effect) -> None:
    """Return True if a text is among the newest messages."""
    value, depth = run.value(effect, "value"), run.number(effect, "depth")
    found = depth == depth and search_messages(
        run.messages, value, effect.fields.get("condition"), depth, run.world.warn
    )
    run.output(effect, "1" if found else "0")
