"""Who takes part: names, personas, the fields of the character."""

from __future__ import annotations

from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.lists import make_array, stringify
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._objects import RisuCharacter

functions = FunctionGroup("identity")


def selected(call: CBSCall) -> RisuCharacter:
    """Return the selected character; fails if there is none."""
    if call.context.character is None:
        raise FunctionFailure("no character is selected")
    return call.context.character


def described(call: CBSCall) -> RisuCharacter:
    """Return the character whose fields are used: the speaker if it is a character, else the selected one."""
    speaking = call.context.speaking
    return speaking if isinstance(speaking, RisuCharacter) else selected(call)


@functions("char", "bot")
def char(call: CBSCall) -> str:
    """The name of the character."""
    context = call.context
    call.walk(len(context.characters))
    if not context.consistent_names and context.speaking is None:
        selected(call)
    return context.character_name


@functions("user")
def user(call: CBSCall) -> str:
    """The name of the user."""
    context = call.context
    call.walk(len(context.personas))
    persona = context.persona
    if not context.consistent_names and persona is not None and persona.name is None:
        raise FunctionFailure("the persona of this chat has no name")
    return context.user_name


@functions("persona", "userpersona")
def persona(call: CBSCall) -> str:
    """The user's persona, expanded."""
    bound = call.context.persona
    if bound is not None:
        return call.expand(bound.prompt, "the prompt of the persona")
    return call.expand(call.context.settings.persona_prompt or "", "the persona prompt")


@functions("description", "chardesc")
def description(call: CBSCall) -> str:
    """The description of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.description, "the description")


@functions("personality", "charpersona")
def personality(call: CBSCall) -> str:
    """The personality of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.personality, "the personality")


@functions("scenario")
def scenario(call: CBSCall) -> str:
    """The scenario of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.scenario, "the scenario")


@functions("exampledialogue", "examplemessage", "example_dialogue")
def exampledialogue(call: CBSCall) -> str:
    """The example messages of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.example_message, "the example messages")


@functions("lorebook", "worldinfo")
def lorebook(call: CBSCall) -> str:
    """All lore entries of character, chat and modules as a list of JSON texts, not expanded."""
    selected(call)
    character = described(call)
    lore = () if character.is_group else character.lore or ()
    modules = (entry for module in call.context.enabled_modules for entry in module.lore)
    return make_array(stringify(entry) for entry in (*lore, *call.context.chat.local_lore, *modules))
