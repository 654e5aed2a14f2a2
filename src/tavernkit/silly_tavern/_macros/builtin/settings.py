"""The settings: instruct mode, the system prompt, limits and model, and the bundled extensions."""

from __future__ import annotations

import unicodedata
from operator import attrgetter

from tavernkit._text.js_values import trim
from tavernkit._values import is_mapping
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.registry import Handler, MacroArgument, MacroRegistry
from tavernkit.silly_tavern._templates.templates import InstructTemplate

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
    # The switch of the settings also hides the card's own prompt.
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


@macros.macro("maxPrompt", aliases=("maxPromptTokens",), category="state", returns="integer")
def max_prompt(call: MacroCall) -> object:
    """How many tokens a prompt may have: the context without the response."""
    return call.environment.max_context - call.environment.max_response


@macros.macro("maxContext", aliases=("maxContextTokens",), category="state", returns="integer")
def max_context(call: MacroCall) -> object:
    """How many tokens the context has."""
    return call.environment.max_context


@macros.macro("maxResponse", aliases=("maxResponseTokens",), category="state", returns="integer")
def max_response(call: MacroCall) -> object:
    """How many tokens a response may have."""
    return call.environment.max_response


@macros.macro("model", category="state")
def model(call: MacroCall) -> str:
    """The name of the model."""
    return call.environment.model


@macros.macro("isMobile", category="state", returns="boolean")
def is_mobile(call: MacroCall) -> object:
    """True if the user is on a phone or tablet."""
    return call.environment.is_mobile


@macros.macro("lastGenerationType", category="state")
def last_generation_type(call: MacroCall) -> str:
    """The type of the last generation: normal, swipe, continue and so on."""
    return call.environment.memory.last_generation_type


@macros.macro("hasExtension", args=(MacroArgument("extensionName"),), category="state")
def has_extension(call: MacroCall) -> object:
    """True if an extension with this name is installed and enabled."""
    wanted = _plain(call.args[0])
    installed = {_plain(name) for name in call.environment.extensions.enabled}
    return wanted in installed or f"third-party/{wanted}" in installed


@macros.macro("reasoningPrefix", category="prompts")
def reasoning_prefix(call: MacroCall) -> str:
    """The mark before a model's reasoning."""
    return call.environment.reasoning.prefix


@macros.macro("reasoningSuffix", category="prompts")
def reasoning_suffix(call: MacroCall) -> str:
    """The mark after a model's reasoning."""
    return call.environment.reasoning.suffix


@macros.macro("reasoningSeparator", category="prompts")
def reasoning_separator(call: MacroCall) -> str:
    """The separator between a model's reasoning and its answer."""
    return call.environment.reasoning.separator


def _plain(name: str) -> str:
    """A name without accents and case."""
    decomposed = unicodedata.normalize("NFD", name)
    return "".join(each for each in decomposed if not unicodedata.combining(each)).lower()


def summary(environment: MacroEnvironment) -> str:
    """Return the summary of the chat: the user's own, else the newest one stored before the last message."""
    written = environment.extensions.summary
    if written is not None and trim(written):
        return written
    chat = environment.chat
    places = range(len(chat) - 2, -1, -1)  # SillyTavern never looks at the last message
    index = environment.place_in_chat("summary", lambda: next((at for at in places if _memory(chat[at])), None))
    return "" if index is None else _memory(chat[index])


def _memory(line: ChatMessage) -> str:
    memory = line.extra.get("memory")
    return memory if isinstance(memory, str) else ""


def default_expression(environment: MacroEnvironment) -> str:
    """The fallback label of the expressions extension."""
    settings = environment.extensions.expressions
    return settings.fallback or ("#emoji" if settings.show_emoji else "#none")


def image_prefix(environment: MacroEnvironment, *, negative: bool) -> str:
    """The image prompt prefix of the character: the user's, else the card's."""
    own, card = environment.extensions, environment.character
    users = own.image_negative_prefix if negative else own.image_prefix
    if users or card is None:
        return users
    prompts = card.extensions.get("sd_character_prompt")
    text = prompts.get("negative" if negative else "positive") if is_mapping(prompts) else None
    return text if isinstance(text, str) else ""


@macros.macro("defaultExpression", category="misc")
def default_expression_macro(call: MacroCall) -> str:
    """The expression that is shown when no other fits."""
    return default_expression(call.environment)


@macros.macro("lastExpression", args=(MacroArgument("name", optional=True),), delayed=True, category="misc")
def last_expression(call: MacroCall) -> str:
    """The expression that a character showed last."""
    name = trim(call.resolve(call.args[0])) if call.args else call.run.character_name
    return call.environment.extensions.expressions.last.get(name, "")


@macros.macro("availableExpressions", category="misc")
def available_expressions(call: MacroCall) -> str:
    """The expressions a character can show."""
    return ", ".join(call.environment.extensions.expressions.labels)


@macros.macro("summary", category="chat")
def summary_macro(call: MacroCall) -> str:
    """The summary of the chat."""
    if call.environment.extensions.summary is None:
        raise MacroFailure("the extension Summarize is switched off")
    return summary(call.environment)


@macros.macro("charPrefix", category="prompts")
def char_prefix(call: MacroCall) -> str:
    """What image prompts of the character start with."""
    return image_prefix(call.environment, negative=False)


@macros.macro("charNegativePrefix", category="prompts")
def char_negative_prefix(call: MacroCall) -> str:
    """What negative image prompts of the character start with."""
    return image_prefix(call.environment, negative=True)


@macros.macro("authorsNote", category="prompts")
def authors_note(call: MacroCall) -> str:
    """The author's note of the chat."""
    return call.environment.notes.chat


@macros.macro("charAuthorsNote", category="prompts")
def char_authors_note(call: MacroCall) -> str:
    """The author's note of the character."""
    return call.environment.notes.character


@macros.macro("defaultAuthorsNote", category="prompts")
def default_authors_note(call: MacroCall) -> str:
    """The author's note that new chats get."""
    return call.environment.notes.default
