"""JSON pointers."""

from __future__ import annotations

from tavernkit._text import json_pointer
from tavernkit.errors import ConfigError
from tests.conformance.runner import Case

OPERATIONS = {
    "tokens": json_pointer.tokens,
    "from_tokens": json_pointer.from_tokens,
    "escape": json_pointer.escape,
    "unescape": json_pointer.unescape,
}


def is_valid(pointer: object) -> bool:
    try:
        json_pointer.tokens(pointer)
    except ConfigError:
        return False
    return True


def run(case: Case) -> object:
    argument = case.input["arg"]
    valid = is_valid(argument)
    try:
        return {"result": OPERATIONS[case.input["op"]](argument), "valid": valid}
    except ConfigError as error:
        return {"error": {"class": type(error).__name__, "code": error.code}, "valid": valid}
