"""The prompt (added texts, stopping, sending again), and what ``display`` and ``request`` runs edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import json_parse, json_stringify, to_string
from tavernkit._values import Json
from tavernkit.risu_ai._triggers.effects.arrays import element_text, indexed
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import RunAbortedError, TriggerFailedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()


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
    if role in _ROLES:
        _set_field(run, effect, messages, "role", role)
    run.display_data = run.world.budget.text(json_stringify(messages))


@effects.effect("v2GetRequestStateLength")
def get_length(run: Run, effect: Effect) -> None:
    """Count the messages."""
    messages = _messages(run)
    run.output(effect, to_string(len(messages) if isinstance(messages, list) else "undefined"))
