"""Variables, and what controls the expansion itself."""

from __future__ import annotations

from tavernkit._text.js_values import number_to_string, to_number
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.functions.chat import selected
from tavernkit.risu_ai._cbs.limits import Returned
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup
from tavernkit.risu_ai._cbs.run import FORCE_RETURN, RETURN_VALUE

variable_functions = FunctionGroup("variables")


@variable_functions("getvar", args=("name",))
def getvar(call: CBSCall) -> str:
    """The value of a chat variable; ``null`` if it is not set."""
    return call.context.chat_variable(call.shown(0))


@variable_functions("getglobalvar", args=("name",))
def getglobalvar(call: CBSCall) -> str:
    """The value of a global variable or toggle (``toggle_`` and its name); ``null`` if it is not set."""
    return call.context.global_variable(call.shown(0))


def _store(call: CBSCall, value: str | None) -> str:
    selected(call)
    if value is None:
        call.context.variables.delete(call.shown(0))
    else:
        call.context.variables.set(call.shown(0), value)
    return ""


@variable_functions("setvar", args=("name", "value"))
def setvar(call: CBSCall) -> str | None:
    """Set a chat variable. Kept as text unless this pass executes writes."""
    if call.context.writes != "run":
        return "" if call.context.writes == "remove" else None
    return _store(call, call.get(1))


@variable_functions("addvar", args=("name", "number"))
def addvar(call: CBSCall) -> str | None:
    """Add to a chat variable. Kept as text unless this pass executes writes."""
    if call.context.writes != "run":
        return "" if call.context.writes == "remove" else None
    total = to_number(call.context.chat_variable(call.shown(0))) + call.number(1)  # unset reads `null`, which is NaN
    return _store(call, number_to_string(total))


@variable_functions("setdefaultvar", args=("name", "value"))
def setdefaultvar(call: CBSCall) -> str | None:
    """Set a chat variable that is empty (not one that is unset). Kept as text unless this pass executes writes."""
    if call.context.writes != "run":
        return "" if call.context.writes == "remove" else None
    return "" if call.context.chat_variable(call.shown(0)) else _store(call, call.get(1))


@variable_functions("tempvar", "gettempvar", args=("name",))
def tempvar(call: CBSCall) -> str:
    """The value of a temp variable; empty if it is not set."""
    value = call.run.temp.get(call.shown(0))
    call.run.temp.check_return()
    return value


@variable_functions("settempvar", args=("name", "value"))
def settempvar(call: CBSCall) -> str:
    """Set a temp variable, which exists until the end of this text."""
    call.run.temp.set(call.shown(0), call.get(1))
    call.run.temp.check_return()
    return ""


@variable_functions("return", args=("value",))
def return_(call: CBSCall) -> str:
    """End the text; the value is all it prints."""
    call.run.temp.set(RETURN_VALUE, call.get(0))
    call.run.temp.set(FORCE_RETURN, "1")
    value = call.get(0)
    raise Returned("null" if value is None else value)


@variable_functions("calc", args=("expression",))
def calc(call: CBSCall) -> str:
    """The result of an expression, like ``{{? ...}}``."""
    return calculate(call.text(0), call.context)


@variable_functions("blank", "none", "hiddenkey", pure=True)
def blank(_: CBSCall) -> str:
    """Nothing."""
    return ""


@variable_functions("comment", args=("text",))
def comment(call: CBSCall) -> str:
    """Nothing when sent to a model; shown to people."""
    return f'<div class="risu-comment">{call.shown(0)}</div>' if call.context.display else ""
