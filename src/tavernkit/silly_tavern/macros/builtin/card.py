"""The character card and the persona."""

from __future__ import annotations

from tavernkit.silly_tavern.macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern.macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()


@macros.macro("charPrompt", category="character")
def char_prompt(call: MacroCall) -> str:
    """The card's system prompt."""
    return call.run.cards.system_prompt()


@macros.macro("charInstruction", category="character")
def char_instruction(call: MacroCall) -> str:
    """The card's post-history instructions."""
    return call.run.cards.post_history_instructions()


@macros.macro("charDescription", aliases=("description",), category="character")
def char_description(call: MacroCall) -> str:
    """The card's description."""
    return call.run.cards.description()


@macros.macro("charPersonality", aliases=("personality",), category="character")
def char_personality(call: MacroCall) -> str:
    """The card's personality."""
    return call.run.cards.personality()


@macros.macro("charScenario", aliases=("scenario",), category="character")
def char_scenario(call: MacroCall) -> str:
    """The card's scenario."""
    return call.run.cards.scenario()


@macros.macro("persona", category="character")
def persona(call: MacroCall) -> str:
    """The description of the user's persona."""
    return call.run.cards.persona()


@macros.macro("mesExamplesRaw", category="character")
def mes_examples_raw(call: MacroCall) -> str:
    """The card's example dialogue as written."""
    return call.run.cards.examples_raw()


@macros.macro("mesExamples", category="character")
def mes_examples(call: MacroCall) -> str:
    """The card's example dialogue as it goes into the prompt."""
    return call.run.cards.examples()


@macros.macro("charDepthPrompt", category="character")
def char_depth_prompt(call: MacroCall) -> str:
    """The card's prompt at a depth of the chat."""
    return call.run.cards.depth_prompt()


@macros.macro("charCreatorNotes", aliases=("creatorNotes",), category="character")
def char_creator_notes(call: MacroCall) -> str:
    """The notes of the card's creator."""
    return call.run.cards.creator_notes()


@macros.macro(
    "charFirstMessage",
    aliases=("greeting",),
    args=(MacroArgument("index", ("integer",), optional=True),),
    category="character",
    example="{{greeting::1}}",
)
def char_first_message(call: MacroCall) -> str:
    """The card's first message, or with an index an alternate greeting."""
    digits = call.argument(0, "0").strip()
    return call.run.cards.first_message(int(digits) if len(digits) < 12 else -1)


@macros.macro("charVersion", hidden_aliases=("version", "char_version"), category="character")
def char_version(call: MacroCall) -> str:
    """The card's version."""
    return call.run.cards.version()


@macros.macro("original", category="character")
def original(call: MacroCall) -> str:
    """In a card's prompt: the prompt it replaces. Works once."""
    text = call.run.original
    if text is None:
        raise MacroFailure("nothing is replaced here")
    call.run.original = ""
    return text
