"""Macros that need no chat: white space, comments, outlets, conditions, random choices, stable choices, dice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_string, trim, trim_start, truthy
from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.call import MacroCall, MacroFailure, dedent, is_falsy, to_text
from tavernkit.silly_tavern._macros.environment import TEXT_COMPLETION_API, MacroEnvironment
from tavernkit.silly_tavern._macros.limits import MAX_DICE, MAX_OUTPUT_CHARS
from tavernkit.silly_tavern._macros.nodes import MacroNode, Part, Steps
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroListArgument, MacroRegistry
from tavernkit.silly_tavern._macros.seeding import place_draw, text_hash
from tavernkit.silly_tavern._macros.source import ELSE_MARKER

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.document import Document
    from tavernkit.silly_tavern._macros.run import Expansion, Run


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
    count = int(trim(call.args[0]))
    if not 0 <= count <= MAX_OUTPUT_CHARS:
        raise MacroFailure(f"it takes a number from 0 to {MAX_OUTPUT_CHARS}, not {call.args[0]:.20}")
    return text * count


@macros.macro("noop", category="utility")
def noop(_call: MacroCall) -> str:
    """Nothing."""
    return ""


@macros.macro("trim", args=(MacroArgument("content", optional=True),), category="utility")
def trim_block(call: MacroCall) -> str:
    """Removes the line breaks around it; as a block, returns its trimmed content."""
    # SillyTavern ignores an argument that is not a block.
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
    environment = call.environment
    if environment.main_api == TEXT_COMPLETION_API:
        environment.memory.banned_words.append(call.args[0].removeprefix('"').removesuffix('"'))
    return ""


@macros.macro("outlet", args=(MacroArgument("key"),), category="utility", example="{{outlet::lore}}")
def outlet(call: MacroCall) -> str:
    """Text of the World Info outlet with this key."""
    key = call.args[0]
    return call.environment.outlets.get(key, "") if key else ""


_VARIABLE = re.compile(r"([.$])([A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)\Z")


@macros.macro("else", category="utility")
def else_marker(_call: MacroCall) -> str:
    """Separates the two branches of an if."""
    return ELSE_MARKER


def choose(node: MacroNode, run: Run) -> Steps:
    """Evaluate the condition, then only the branch it chooses."""
    condition, content = node.args[0], node.content or node.args[1]
    # Only the first exclamation mark counts: `!!0` negates the text `!0`, which is true.
    negated = condition.text.startswith("!")
    if negated:
        condition = _without_bang(condition)
    text = yield from _resolve(condition, node, run)
    found = _VARIABLE.match(text)
    if found is not None:
        scope = "local" if found[1] == "." else "global"
        text = to_text(variables.read(run.variables, found[2], scope))
    else:
        # A condition that gives the name of a macro runs it, which uses up `original`. Dynamic macros do not count.
        target = run.engine.registry.lookup(text.lower())
        if target is not None and not target[1].required:
            text = yield from _resolve_text("{{" + text + "}}", node, run)
    chosen = _branch(content, run, wanted=is_falsy(text) == negated)
    if chosen is None:
        return ""
    text = yield from _resolve(chosen, node, run)
    return text if "#" in node.flags or run.budget.spent else dedent(text)


def _resolve(part: Part, node: MacroNode, run: Run) -> Steps:
    """Expand a part as a separate text, with offsets relative to the ``if``."""
    document = part.document
    if document is None or run.engine.prepares_parts:
        return (yield from _resolve_text(part.text, node, run))
    if not document.may_parse(run):
        return part.text
    document.report_syntax(run)
    text = yield document, run.base + node.offset - document.offset
    return run.engine.complete(text, run.environment)


def _resolve_text(text: str, node: MacroNode, run: Run) -> Steps:
    """Expand a text that is not part of the current one."""
    engine = run.engine
    if "{{" not in text and not engine.prepares_parts:
        return engine.complete(text, run.environment)
    document = engine.compile(text, run.environment)
    document.report_syntax(run)
    return engine.complete((yield document, run.base + node.offset), run.environment)


def _without_bang(part: Part) -> Part:
    rest = trim_start(part.text[1:])
    document = part.document
    return Part(rest) if document is None else Part(None, document.without_start(len(part.text) - len(rest)))


def _branch(content: Part, run: Run, *, wanted: bool) -> Part | None:
    """Return the first branch, or the second one, or an empty text if there is none."""
    document = content.document
    if document is None:
        return content if wanted else None
    branches: tuple[Document, Document | None] = document.branches(run)
    chosen = branches[0] if wanted else branches[1]
    return None if chosen is None else Part(None, chosen)


macros.register(
    "if",
    control=choose,
    args=(MacroArgument("condition"), MacroArgument("content")),
    delayed=True,
    category="utility",
    description="Returns its content only if the condition is true; {{else}} starts the other branch.",
    example="{{if {{getvar::met}}}}Hello again{{else}}Hello{{/if}}",
)


_ESCAPED_COMMA = "\x00comma\x00"
_DICE = re.compile(r"([1-9][0-9]*)?d([1-9][0-9]*)([+-][0-9]+)?\Z", re.IGNORECASE)


def split_commas(text: str) -> list[str]:
    r"""Split a text at commas; ``\,`` is a literal comma."""
    pieces = text.replace("\\,", _ESCAPED_COMMA).split(",")
    return [trim(piece).replace(_ESCAPED_COMMA, ",") for piece in pieces]


def chat_hash(environment: MacroEnvironment) -> int | float:
    """Return the hash of the chat's name, cached; 0 is a hash like any other here, not so in the legacy engine."""
    memory = environment.memory
    known = memory.chat_id_hash
    if isinstance(known, (int, float)):
        return known
    # Without a chat, SillyTavern stores a 0.
    memory.chat_id_hash = chat_name_hash(environment)
    return memory.chat_id_hash


def chat_name_hash(environment: MacroEnvironment) -> int:
    """Return the hash of the name of the chat, or of its parent chat; 0 if the name is not text."""
    name = environment.chat_id if environment.main_chat is None else environment.main_chat
    return text_hash(name) if isinstance(name, str) else 0


def roll_dice(run: Expansion, formula: str) -> int | None:
    """Throw dice such as ``2d6+1``; None for an invalid formula or too many dice."""
    found = _DICE.match(formula)
    if found is None or len(found[1] or "") > 6 or int(found[1] or 1) > MAX_DICE or len(formula) > 64:
        return None
    sides = int(found[2])
    draw = run.environment.random
    count = int(found[1] or 1)
    if not run.take_dice(count):
        return None
    total = sum(1 + int(draw() * sides) for _ in range(count))
    return total + int(found[3] or 0)


def _choices(call: MacroCall) -> list[str]:
    # A single argument contains the whole list: `{{random a, b}}` or `{{random a::b}}`.
    items = call.items
    if len(items) != 1:
        return list(items)
    if "::" in items[0]:
        return [trim(item) for item in items[0].split("::")]
    return split_commas(items[0])


@macros.macro("random", list=MacroListArgument(), category="random", example="{{random::red::green::blue}}")
def random(call: MacroCall) -> str:
    """One of the items, chosen again each time."""
    # Draws a number even for a single item.
    choices = _choices(call)
    return choices[int(call.environment.random() * len(choices))] if choices else ""


@macros.macro("pick", list=MacroListArgument(), category="random", example="{{pick::red::green::blue}}")
def pick(call: MacroCall) -> str:
    """One of the items; always the same at the same place of a text in a chat."""
    choices = _choices(call)
    if not choices:
        return ""
    environment = call.environment
    # The hash of the text as it came, but the offset in the text with modern markers: chats depend on both.
    parts = [to_string(chat_hash(environment)), str(call.run.text_hash), str(call.offset)]
    if truthy(environment.pick_reroll_seed):
        parts.append(to_string(environment.pick_reroll_seed))
    return choices[int(place_draw("-".join(parts)) * len(choices))]


@macros.macro("roll", args=(MacroArgument("formula"),), category="random", returns="integer", example="{{roll::2d6+1}}")
def roll(call: MacroCall) -> object:
    """The sum of dice."""
    formula = trim(call.args[0])
    if formula.isascii() and formula.isdigit():
        formula = f"1d{formula}"
    total = roll_dice(call.run, formula)
    if total is None:
        # Unlike other calls that fail, it does not stay in the text.
        call.warn("roll", f"{formula!r:.80} is not a dice formula such as 2d6+1 (at most {MAX_DICE} dice)")
        return ""
    return total
