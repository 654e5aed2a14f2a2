"""Names, the character card and the persona."""

from __future__ import annotations

from tavernkit._text.traced import join
from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()


@macros.macro("user", category="names", only_names=True)
def user(call: MacroCall) -> str:
    """The user's name."""
    return call.run.user_name


@macros.macro("char", category="names", only_names=True)
def char(call: MacroCall) -> str:
    """The character's name."""
    return call.run.character_name


@macros.macro("group", hidden_aliases=("charIfNotGroup",), category="names")
def group(call: MacroCall) -> str:
    """The names of all group members; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names)


@macros.macro("groupNotMuted", category="names")
def group_not_muted(call: MacroCall) -> str:
    """The names of the group members who are not muted; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names_not_muted)


@macros.macro("notChar", category="names")
def not_char(call: MacroCall) -> str:
    """The names of the other group members who are not muted; outside of groups, the user's."""
    chat, own = call.environment.group, call.run.character_name
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.user_name if chat is None else join(", ", (name for name in chat.names_not_muted if name != own))


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
