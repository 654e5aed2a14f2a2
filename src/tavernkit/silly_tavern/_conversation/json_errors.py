"""Error messages of ``JSON.parse``, which are the results of tool calls with invalid arguments."""

from __future__ import annotations

import json

_SHOWN = 20
"""How many characters on each side of the error the message quotes."""


def json_error(text: str) -> str:
    """Return the message of ``JSON.parse`` for a text that is not JSON; empty for one that is."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _message(text, _before_python_3_13(text, error))
    except (ValueError, RecursionError):  # JavaScript accepts any number of digits and deeper nesting
        return "the JSON text has too many digits or is nested too deeply"
    return ""


def _before_python_3_13(text: str, error: json.JSONDecodeError) -> json.JSONDecodeError:
    """Return the error of older versions of Python, which point after a comma with nothing after it."""
    if not error.msg.startswith("Illegal trailing comma"):
        return error
    behind = len(text) - len(text[error.pos + 1 :].lstrip(" \t\r\n"))
    return json.JSONDecodeError("Expecting property name" if text[behind] == "}" else "Expecting value", text, behind)


def _message(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    rest = text[at:].lstrip(" \t\r\n")
    at = len(text) - len(rest)
    if error.msg.startswith("Unterminated string"):
        return f"Unterminated string in JSON{_place(text, len(text))}"
    if not rest and not error.msg.startswith("Expecting property name"):
        return (
            "Unexpected end of JSON input" if not _in_container(text) else f"{_expected(text, error)}{_place(text, at)}"
        )
    if error.msg == "Expecting value":
        return f"Unexpected token '{rest[0]}', {_quoted(text, at)} is not valid JSON"
    if error.msg.startswith("Invalid control character"):
        return f"Bad control character in string literal in JSON{_place(text, at)}"
    if error.msg.startswith(("Invalid \\escape", "Invalid \\u")):
        return f"Bad escaped character in JSON{_place(text, at + 1)}"
    return f"{_expected(text, error)}{_place(text, at)}"


def _expected(text: str, error: json.JSONDecodeError) -> str:
    before = text[: error.pos].rstrip(" \t\r\n")
    if error.msg == "Extra data":
        return "Unexpected non-whitespace character after JSON"
    if error.msg == "Expecting ':' delimiter":
        return "Expected ':' after property name in JSON"
    if error.msg == "Expecting ',' delimiter":
        in_list = _innermost(text[: error.pos]) == "["
        return (
            "Expected ',' or ']' after array element in JSON"
            if in_list
            else ("Expected ',' or '}' after property value in JSON")
        )
    if before.endswith(","):
        return "Expected double-quoted property name in JSON"
    return "Expected property name or '}' in JSON"


def _in_container(text: str) -> bool:
    return bool(_innermost(text)) and not text.rstrip().endswith((":", ","))


def _innermost(text: str) -> str:
    """Return the bracket that is open at the end of a text."""
    stack: list[str] = []
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "[{":
            stack.append(character)
        elif character in "]}" and stack:
            stack.pop()
    return stack[-1] if stack else ""


def _place(text: str, at: int) -> str:
    lines = text[:at].split("\n")
    return f" at position {at} (line {len(lines)} column {len(lines[-1]) + 1})"


def _quoted(text: str, at: int) -> str:
    start, end = max(at - _SHOWN // 2, 0), min(at + _SHOWN // 2, len(text))
    before, after = "..." if start else "", "..." if end < len(text) else ""
    return f'{before}"{text[start:end]}"{after}' if before or after else f'"{text}"'
