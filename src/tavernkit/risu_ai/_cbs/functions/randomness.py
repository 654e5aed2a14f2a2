"""Dice and choices, by chance or always the same for a chat."""

from __future__ import annotations

import math
from collections.abc import Callable

from tavernkit._text.js_values import number_to_string, to_number
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.functions.identity import selected
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._cbs.limits import MAX_ROLLS
from tavernkit.risu_ai._cbs.lists import parse_array, stringify
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure

functions = FunctionGroup("random")

_COMMA = "§X"
"""A placeholder for an escaped comma while a list is split."""


def _choices(args: list[str]) -> list[Json]:
    if len(args) > 1:
        return [*args]
    text = args[0]
    if text.startswith("[") and text.endswith("]"):
        return parse_array(text)
    return [*text.replace("\\,", _COMMA).replace(":", ",").split(",")]


def _choose(call: CBSCall, chance: float) -> str:
    if not call.args:
        return number_to_string(chance)
    choices = _choices(call.args)
    index = 0 if call.context.token_counting else math.floor(chance * len(choices))
    if not 0 <= index < len(choices):
        return ""
    choice = choices[index]
    return choice.replace(_COMMA, ",") if isinstance(choice, str) else stringify(choice)


def _fixed_chance(call: CBSCall, offset: int = 0) -> float:
    selected(call)
    return pick_hash_rand(len(call.context.chat.messages) + offset, call.context.seed_word)


@functions("random", args=("items...",))
def random(call: CBSCall) -> str:
    """One of the arguments, of the items of a list, or of words separated by commas; without any, a number below 1."""
    return _choose(call, call.context.random())


@functions("pick", args=("items...",))
def pick(call: CBSCall) -> str:
    """Like ``random``, but always the same until the chat continues."""
    return _choose(call, _fixed_chance(call))


@functions("randint", args=("min", "max"))
def randint(call: CBSCall) -> str:
    """A whole number between two, both included."""
    low, high = call.number(0), call.number(1)
    if low != low or high != high:
        return "NaN"
    value = call.context.random() * (high - low + 1)
    return number_to_string((math.floor(value) if math.isfinite(value) else value) + low)


def _rolls(call: CBSCall, count: float, sides: float, chance: Callable[[int], float]) -> str:
    """Add up dice; a fraction of a die is a die."""
    if count > MAX_ROLLS:
        raise FunctionFailure(f"one tag may roll at most {MAX_ROLLS} dice")
    call.run.session.step(math.ceil(max(count, 0)))
    total = 0.0
    for index in range(math.ceil(max(count, 0))):
        value = chance(index) * sides
        total += (math.floor(value) if math.isfinite(value) else value) + 1
    return number_to_string(total)


@functions("dice", args=("XdY",))
def dice(call: CBSCall) -> str:
    """The sum of X dice with Y sides."""
    parts = call.text(0).split("d")
    count = to_number(parts[0])
    sides = to_number(parts[1]) if len(parts) > 1 else math.nan
    if count != count or sides != sides:
        return "NaN"
    return _rolls(call, count, sides, lambda _: call.context.random())


def _roll(call: CBSCall, chance: Callable[[int], float]) -> str:
    if not call.args:
        return "1"
    parts = call.args[0].split("d")
    count, sides = 1.0, 6.0
    if len(parts) == 2:
        count = to_number(parts[0]) if parts[0] else 1.0
        sides = to_number(parts[1]) if parts[1] else 6.0
    elif len(parts) == 1:
        sides = to_number(parts[0])
    if not (count >= 1 and sides >= 1):
        return "NaN"
    return _rolls(call, count, sides, chance)


@functions("roll", args=("XdY",))
def roll(call: CBSCall) -> str:
    """The sum of X dice (default 1) with Y sides (default 6)."""
    return _roll(call, lambda _: call.context.random())


@functions("rollp", "rollpick", args=("XdY",))
def rollp(call: CBSCall) -> str:
    """Like ``roll``, but always the same until the chat continues."""
    return _roll(call, lambda index: _fixed_chance(call, 15 * index))
