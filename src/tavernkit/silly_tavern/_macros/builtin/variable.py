"""Local and global variables."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroDefinition, MacroRegistry
from tavernkit.stores._variables import GLOBAL, LOCAL

macros = MacroRegistry()

_NAME = MacroArgument("name")
_KEY = MacroArgument("key", ("string", "number"))
_VALUE = MacroArgument("value", ("string", "number"))


def _set(call: MacroCall, scope: str) -> object:
    variables.write(call.run.variables, call.args[0], call.args[1], scope)
    return ""


def _add(call: MacroCall, scope: str) -> object:
    variables.add(call.run.variables, call.args[0], call.args[1], scope)
    return ""


def _increment(call: MacroCall, scope: str) -> object:
    return variables.add(call.run.variables, call.args[0], 1.0, scope)


def _decrement(call: MacroCall, scope: str) -> object:
    return variables.add(call.run.variables, call.args[0], -1.0, scope)


def _get(call: MacroCall, scope: str) -> object:
    return variables.read(call.run.variables, call.args[0], scope)


def _has(call: MacroCall, scope: str) -> object:
    return variables.exists(call.run.variables, call.args[0], scope)


def _delete(call: MacroCall, scope: str) -> object:
    variables.delete(call.run.variables, call.args[0], scope)
    return ""


def _set_key(call: MacroCall, scope: str) -> object:
    name, key, value = call.args
    if not variables.write_key(call.run.variables, name, key, value, scope):
        call.note_ignored("key", f"the variable {name!r:.80} is not a JSON object or array; nothing is stored")
    return ""


def _get_key(call: MacroCall, scope: str) -> object:
    return variables.read_key(call.run.variables, call.args[0], call.args[1], scope)


# Verb, other verbs, arguments, what it returns, what it does. {v} in a name is "var" or "globalvar".
_VERBS: tuple[
    tuple[str, tuple[str, ...], tuple[MacroArgument, ...], str, str, Callable[[MacroCall, str], object]], ...
] = (
    ("set{v}", (), (_NAME, _VALUE), "string", "Stores a value in a {s} variable; gives nothing.", _set),
    ("add{v}", (), (_NAME, _VALUE), "string", "Adds to a {s} variable: numbers, text or an array.", _add),
    ("inc{v}", (), (_NAME,), "number", "Adds 1 to a {s} variable and gives what it is then.", _increment),
    ("dec{v}", (), (_NAME,), "number", "Takes 1 from a {s} variable and gives what it is then.", _decrement),
    ("get{v}", (), (_NAME,), "string or number", "The value of a {s} variable.", _get),
    ("has{v}", ("{v}exists",), (_NAME,), "string", "Whether a {s} variable is set: true or false.", _has),
    ("delete{v}", ("flush{v}",), (_NAME,), "string", "Removes a {s} variable; gives nothing.", _delete),
    (
        "set{v}key",
        ("set{v}index",),
        (_NAME, _KEY, _VALUE),
        "string",
        "Stores a value under a key of the object or array in a {s} variable; gives nothing.",
        _set_key,
    ),
    (
        "get{v}key",
        ("get{v}index",),
        (_NAME, _KEY),
        "string or number",
        "The value under a key of the object or array in a {s} variable.",
        _get_key,
    ),
)


def _in_scope(act: Callable[[MacroCall, str], object], scope: str) -> Callable[[MacroCall], object]:
    return lambda call: act(call, scope)


for _scope, _word in ((LOCAL, "var"), (GLOBAL, "globalvar")):
    for _verb, _aliases, _arguments, _returns, _description, _act in _VERBS:
        macros.add(
            MacroDefinition(
                name=_verb.format(v=_word),
                handler=_in_scope(_act, _scope),
                aliases=tuple(alias.format(v=_word) for alias in _aliases),
                args=_arguments,
                category="variable",
                description=_description.format(s=_scope),
                returns=_returns,
            )
        )
