"""Comparisons and truth; the answers are ``1`` and ``0``, and only the text ``1`` is true."""

from __future__ import annotations

from tavernkit._text.js_values import js_lower
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.registry import FunctionGroup

functions = FunctionGroup("logic")


def _bit(value: object) -> str:
    return "1" if value else "0"


@functions("equal", args=("a", "b"), pure=True)
def equal(call: CBSCall) -> str:
    """True if two texts are the same."""
    return _bit(call.get(0) == call.get(1))


@functions("notequal", "not_equal", args=("a", "b"), pure=True)
def notequal(call: CBSCall) -> str:
    """True if two texts differ."""
    return _bit(call.get(0) != call.get(1))


@functions("greater", args=("a", "b"), pure=True)
def greater(call: CBSCall) -> str:
    """True if the first number is greater."""
    return _bit(call.number(0) > call.number(1))


@functions("less", args=("a", "b"), pure=True)
def less(call: CBSCall) -> str:
    """True if the first number is less."""
    return _bit(call.number(0) < call.number(1))


@functions("greaterequal", "greater_equal", args=("a", "b"), pure=True)
def greaterequal(call: CBSCall) -> str:
    """True if the first number is greater or equal."""
    return _bit(call.number(0) >= call.number(1))


@functions("lessequal", "less_equal", args=("a", "b"), pure=True)
def lessequal(call: CBSCall) -> str:
    """True if the first number is less or equal."""
    return _bit(call.number(0) <= call.number(1))


@functions("and", args=("a", "b"), pure=True)
def and_(call: CBSCall) -> str:
    """True if both are ``1``."""
    return _bit(call.get(0) == "1" and call.get(1) == "1")


@functions("or", args=("a", "b"), pure=True)
def or_(call: CBSCall) -> str:
    """True if one of them is ``1``."""
    return _bit(call.get(0) == "1" or call.get(1) == "1")


@functions("not", args=("a",), pure=True)
def not_(call: CBSCall) -> str:
    """``0`` if the argument is ``1``, else ``1``."""
    return _bit(call.get(0) != "1")


@functions("all", args=("items...",), pure=True)
def all_(call: CBSCall) -> str:
    """True if all arguments, or all items of a list, are ``1``."""
    return _bit(all(item == "1" for item in call.items()))


@functions("any", args=("items...",), pure=True)
def any_(call: CBSCall) -> str:
    """True if one of the arguments, or of the items of a list, is ``1``."""
    return _bit(any(item == "1" for item in call.items()))


@functions("iserror", args=("text",), pure=True)
def iserror(call: CBSCall) -> str:
    """True if a text is an error message of RisuAI."""
    return _bit(js_lower(call.text(0)).startswith("error:"))
