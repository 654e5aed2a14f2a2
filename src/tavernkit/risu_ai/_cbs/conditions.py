"""The conditions of ``#when::``: words read from right to left, without precedence."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Literal, Protocol

from tavernkit._text.js_values import parse_float
from tavernkit.risu_ai._cbs.context import TOGGLE_PREFIX

WhenMode = Literal["normal", "keep", "legacy"]


class Variables(Protocol):
    """Variables for conditions."""

    def chat_variable(self, name: str) -> str:
        """Read a chat variable."""
        ...

    def global_variable(self, name: str) -> str:
        """Read a global variable."""
        ...


def is_true(word: str | None) -> bool:
    """Return True if a word counts as true in a block."""
    return word in ("1", "true")


def evaluate_when(condition: str, variables: Variables) -> tuple[bool, WhenMode]:
    """Return True if the condition after ``#when::`` holds, and how the body is to be treated."""
    words = condition.split("::")
    mode: WhenMode = "normal"
    while len(words) > 1:
        right = words.pop()
        name = words.pop()
        if name == "keep" or name == "legacy":
            mode = name
            words.append(right)
        elif name in _UNARY:
            words.append(_bit(_UNARY[name](right, variables)))
        elif name in _BINARY:
            left = words.pop() if words else None
            words.append(_bit(_BINARY[name](left, right, variables)))
        else:
            words.append(_bit(is_true(right)))
    return is_true(words[0]), mode


def _bit(value: bool) -> str:
    return "1" if value else "0"


_Unary = Callable[[str, Variables], bool]
_Binary = Callable[[str | None, str, Variables], bool]

_UNARY: dict[str, _Unary] = {
    "not": lambda right, _: not is_true(right),
    "var": lambda right, variables: is_true(variables.chat_variable(right)),
    "toggle": lambda right, variables: is_true(variables.global_variable(TOGGLE_PREFIX + right)),
}


def _chat_value(name: str | None, variables: Variables) -> str:
    return variables.chat_variable("undefined" if name is None else name)


def _toggle_value(name: str | None, variables: Variables) -> str:
    return variables.global_variable(TOGGLE_PREFIX + ("undefined" if name is None else name))


def _comparison(compare: Callable[[float, float], bool]) -> _Binary:
    def holds(left: str | None, right: str, _: Variables) -> bool:
        return compare(math.nan if left is None else parse_float(left), parse_float(right))

    return holds


_BINARY: dict[str, _Binary] = {
    "and": lambda left, right, _: is_true(left) and is_true(right),
    "or": lambda left, right, _: is_true(left) or is_true(right),
    "is": lambda left, right, _: left == right,
    "isnot": lambda left, right, _: left != right,
    "vis": lambda left, right, variables: _chat_value(left, variables) == right,
    "visnot": lambda left, right, variables: _chat_value(left, variables) != right,
    "tis": lambda left, right, variables: _toggle_value(left, variables) == right,
    "tisnot": lambda left, right, variables: _toggle_value(left, variables) != right,
    ">": _comparison(operator.gt),
    "<": _comparison(operator.lt),
    ">=": _comparison(operator.ge),
    "<=": _comparison(operator.le),
}
