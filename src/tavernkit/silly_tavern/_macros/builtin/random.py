"""Random choices, stable choices, and dice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_string, trim, truthy
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.limits import MAX_DICE
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroListArgument, MacroRegistry
from tavernkit.silly_tavern._macros.seeding import place_draw, text_hash

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.run import Expansion

macros = MacroRegistry()

_ESCAPED_COMMA = "\x00comma\x00"
_DICE = re.compile(r"([1-9][0-9]*)?d([1-9][0-9]*)([+-][0-9]+)?\Z", re.IGNORECASE)


def split_commas(text: str) -> list[str]:
    r"""Split a text at commas; ``\,`` is a literal comma."""
    pieces = text.replace("\\,", _ESCAPED_COMMA).split(",")
    return [trim(piece).replace(_ESCAPED_COMMA, ",") for piece in pieces]


def chat_hash(environment: MacroEnvironment) -> int | float:
    """Return the hash of the chat's name, cached."""
    memory = environment.memory
    known = memory.chat_id_hash
    if isinstance(known, (int, float)):
        return known
    memory.chat_id_hash = chat_name_hash(environment)
    return memory.chat_id_hash


def chat_name_hash(environment: MacroEnvironment) -> int:
    """Return the hash of the name of the chat, or of its parent chat; None if the name is not text."""
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
    items = call.items
    if len(items) != 1:
        return list(items)
    if "::" in items[0]:
        return [trim(item) for item in items[0].split("::")]
    return split_commas(items[0])


@macros.macro("random", list=MacroListArgument(), category="random", example="{{random::red::green::blue}}")
def random(call: MacroCall) -> str:
    """One of the items, chosen again each time."""
    choices = _choices(call)
    return choices[int(call.environment.random() * len(choices))] if choices else ""


@macros.macro("pick", list=MacroListArgument(), category="random", example="{{pick::red::green::blue}}")
def pick(call: MacroCall) -> str:
    """One of the items; always the same at the same place of a text in a chat."""
    choices = _choices(call)
    if not choices:
        return ""
    environment = call.environment
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
        call.warn("roll", f"{formula!r:.80} is not a dice formula such as 2d6+1 (at most {MAX_DICE} dice)")
        return ""
    return total
