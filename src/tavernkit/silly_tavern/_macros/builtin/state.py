"""The state of the program: limits, model, settings."""

from __future__ import annotations

import unicodedata

from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()


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
