"""White space, comments, outlets and other small macros."""

from __future__ import annotations

from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure
from tavernkit.silly_tavern._macros.environment import TEXT_COMPLETION_API
from tavernkit.silly_tavern._macros.limits import MAX_OUTPUT_CHARS
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()

_COUNT = (MacroArgument("count", ("integer",), optional=True),)


@macros.macro("space", args=_COUNT, category="utility", example="{{space::4}}")
def space(call: MacroCall) -> str:
    """One or more spaces."""
    return _repeated(call, " ")


@macros.macro("newline", args=_COUNT, category="utility", example="{{newline::2}}")
def newline(call: MacroCall) -> str:
    """One or more line breaks."""
    return _repeated(call, "\n")


def _repeated(call: MacroCall, text: str) -> str:
    if not call.args:
        return text
    digits = call.args[0].strip()
    count = int(digits) if len(digits) < 12 else MAX_OUTPUT_CHARS + 1
    if digits.startswith("-") and digits.strip("-0"):
        raise MacroFailure(f"cannot repeat {digits} times")
    if count > MAX_OUTPUT_CHARS:
        raise MacroFailure(f"cannot repeat more than {MAX_OUTPUT_CHARS} times")
    return text * count


@macros.macro("noop", category="utility")
def noop(_call: MacroCall) -> str:
    """Nothing."""
    return ""


@macros.macro("trim", args=(MacroArgument("content", optional=True),), category="utility")
def trim(call: MacroCall) -> str:
    """Removes the line breaks around it; as a block, returns its trimmed content."""
    return call.args[-1] if call.scoped else "{{trim}}"


@macros.macro("input", category="utility")
def input_text(call: MacroCall) -> str:
    """The text in the input box."""
    return call.environment.input


@macros.macro("reverse", args=(MacroArgument("value"),), category="utility", example="{{reverse::abc}}")
def reverse(call: MacroCall) -> str:
    """The text backwards."""
    return call.args[0][::-1]


@macros.macro(
    "//", args=(MacroArgument("comment"),), hidden_aliases=("comment",), category="utility", example="{{// a note}}"
)
def comment(_call: MacroCall) -> str:
    """A comment: returns nothing, but macros in it are evaluated."""
    return ""


@macros.macro("banned", args=(MacroArgument("word"),), category="utility", example='{{banned::"delve"}}')
def banned(call: MacroCall) -> str:
    """Bans a word for text completion; returns nothing."""
    ban_word(call, call.args[0].removeprefix('"').removesuffix('"'))
    return ""


def ban_word(call: MacroCall, word: str) -> None:
    """Record a banned word, if the API has such a list."""
    environment = call.environment
    if environment.main_api == TEXT_COMPLETION_API:
        environment.memory.banned_words.append(word)


@macros.macro("outlet", args=(MacroArgument("key"),), category="utility", example="{{outlet::lore}}")
def outlet(call: MacroCall) -> str:
    """Text of the World Info outlet with this key."""
    key = call.args[0]
    return call.environment.outlets.get(key, "") if key else ""
