"""The sequences of instruct mode, the system prompt and the separators."""

from __future__ import annotations

from operator import attrgetter

from tavernkit.silly_tavern._instruct.template import InstructTemplate
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.registry import Handler, MacroRegistry

macros = MacroRegistry()

SEQUENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "instructStoryStringPrefix": ((), ("story_string_prefix",)),
    "instructStoryStringSuffix": ((), ("story_string_suffix",)),
    "instructUserPrefix": (("instructInput",), ("input_sequence",)),
    "instructUserSuffix": ((), ("input_suffix",)),
    "instructAssistantPrefix": (("instructOutput",), ("output_sequence",)),
    "instructAssistantSuffix": (("instructSeparator",), ("output_suffix",)),
    "instructSystemPrefix": ((), ("system_sequence",)),
    "instructSystemSuffix": ((), ("system_suffix",)),
    "instructFirstAssistantPrefix": (("instructFirstOutputPrefix",), ("first_output_sequence", "output_sequence")),
    "instructLastAssistantPrefix": (("instructLastOutputPrefix",), ("last_output_sequence", "output_sequence")),
    "instructStop": ((), ("stop_sequence",)),
    "instructUserFiller": ((), ("user_alignment_message",)),
    "instructSystemInstructionPrefix": ((), ("last_system_sequence",)),
    "instructFirstUserPrefix": (("instructFirstInput",), ("first_input_sequence", "input_sequence")),
    "instructLastUserPrefix": (("instructLastInput",), ("last_input_sequence", "input_sequence")),
}
"""Macro -> its aliases and settings: the first one that is not empty is used."""


def sequence(settings: InstructTemplate, fields: tuple[str, ...]) -> str:
    """Return the first of these settings that is not empty; empty while instruct mode is off."""
    if not settings.enabled:
        return ""
    return next((text for text in (attrgetter(name)(settings) for name in fields) if text), "")


def default_system_prompt(environment: MacroEnvironment) -> str:
    """The system prompt of the settings, if it is on."""
    prompt = environment.system_prompt
    return prompt.content if prompt.enabled else ""


def _sequence_handler(fields: tuple[str, ...]) -> Handler:
    return lambda call: sequence(call.environment.instruct, fields)


for _name, (_aliases, _fields) in SEQUENCES.items():
    macros.register(
        _name,
        _sequence_handler(_fields),
        aliases=_aliases,
        category="prompts",
        description=f"Instruct mode: {' or else '.join(_fields).replace('_', ' ')}.",
    )


@macros.macro("defaultSystemPrompt", aliases=("instructSystem", "instructSystemPrompt"), category="prompts")
def default_system_prompt_macro(call: MacroCall) -> str:
    """The system prompt of the settings."""
    return default_system_prompt(call.environment)


@macros.macro("systemPrompt", category="prompts")
def system_prompt(call: MacroCall) -> str:
    """The system prompt: the card's if it is preferred, else that of the settings."""
    environment = call.environment
    if not environment.system_prompt.enabled:
        return ""
    return call.run.cards.system_prompt() or environment.system_prompt.content


@macros.macro("exampleSeparator", aliases=("chatSeparator",), category="prompts")
def example_separator(call: MacroCall) -> str:
    """The separator before blocks of example dialogue."""
    return call.environment.context.example_separator


@macros.macro("chatStart", category="prompts")
def chat_start(call: MacroCall) -> str:
    """The line before the chat."""
    return call.environment.context.chat_start
