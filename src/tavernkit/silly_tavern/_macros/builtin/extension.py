"""Macros of SillyTavern's bundled extensions: notes, summary, expressions, image prefixes."""

from __future__ import annotations

from tavernkit._text.js_values import trim
from tavernkit._values import is_mapping
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()


def summary(environment: MacroEnvironment) -> str:
    """Return the summary of the chat: the user's own, else the newest one stored before the last message."""
    written = environment.extensions.summary
    if written is not None and trim(written):
        return written
    chat = environment.chat
    places = range(len(chat) - 2, -1, -1)
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
