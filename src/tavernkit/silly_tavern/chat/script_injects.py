"""Texts that ``/inject`` stored in a chat's header (``script_injects``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tavernkit.errors import Warn
from tavernkit.silly_tavern.chat.extension_prompts import ExtensionPrompt
from tavernkit.text.js_values import UNDEFINED, is_index_key, to_number, to_string, trim, truthy
from tavernkit.values import is_mapping, is_sequence

KEY_PREFIX = "script_inject_"

MAX_FILTER_CHARACTERS = 10_000
"""A longer filter is not looked at."""

_TRUE = ("on", "true", "1")
_RETURN = re.compile(r"/return(?:\s+(?P<value>[^|{}\n]*))?\Z")
_CLOSURE = re.compile(r"\{:(?P<body>.*):\}\Z", re.DOTALL)
_IF = re.compile(
    r"/if\s+left=(?P<left>\S+)\s+right=(?P<right>\S+)\s+rule=(?P<rule>eq|neq)"
    r"(?:\s+else=\{:(?P<no>[^{}]*):\})?\s+\{:(?P<yes>[^{}]*):\}\Z"
)
_MACRO = re.compile(r"\{\{[^{}]*\}\}")


def script_injects(stored: object, expand: Callable[[str], str], warn: Warn) -> Iterator[ExtensionPrompt]:
    """Read the injects of a chat, in the order SillyTavern registers them.

    Args:
        stored: ``chat_metadata.script_injects``: an object by id, or a list.
        expand: Expands the macros of filters.
        warn: Hears of filters that cannot be run.
    """
    for inject_id, inject in _by_id(stored):
        if is_mapping(inject):
            yield ExtensionPrompt(
                key=f"{KEY_PREFIX}{inject_id}",
                value=to_string(inject.get("value", UNDEFINED)),
                position=to_number(inject.get("position", UNDEFINED)),
                depth=to_number(inject.get("depth", UNDEFINED)),
                role=to_number(inject.get("role") or 0),
                scan=truthy(inject.get("scan")),
                filtered=not _passes(inject_id, inject.get("filter"), expand, warn),
                kind="inject",
                reason="stored in the chat's header by /inject",
                title=f"Inject {inject_id}",
            )


def _by_id(stored: object) -> list[tuple[str, object]]:
    if is_sequence(stored):
        return [(str(index), inject) for index, inject in enumerate(stored)]
    if not is_mapping(stored):
        return []
    numbered = sorted((key for key in stored if is_index_key(key)), key=int)
    return [(key, stored[key]) for key in (*numbered, *(key for key in stored if not is_index_key(key)))]


def _passes(inject_id: str, script: object, expand: Callable[[str], str], warn: Warn) -> bool:
    """Whether the inject's filter lets it through; a filter that is more than a comparison is not run."""
    if not isinstance(script, str) or not trim(script):
        return True
    result = _result(trim(script), expand)
    if result is None:
        warn(f"inject {inject_id!r}: its filter is a script, which is not run; the text is taken as active")
        return True
    return trim(result).lower() in _TRUE


def _result(script: str, expand: Callable[[str], str]) -> str | None:
    """The value of a script, or None where it is more than ``/return`` and ``/if`` with equality."""
    if len(script) > MAX_FILTER_CHARACTERS:
        return None
    while closure := _CLOSURE.match(script):
        script = trim(closure["body"])
    # Macros hide from the patterns: their braces are no closures.
    macros: list[str] = []

    def hide(found: re.Match[str]) -> str:
        macros.append(found.group())
        return f"\0{len(macros) - 1}\0"

    def value(text: str) -> str:
        return expand(re.sub("\0(\\d+)\0", lambda found: macros[int(found[1])], text))

    hidden = _MACRO.sub(hide, script)
    returned = _RETURN.match(hidden)
    if returned is not None:
        return value(returned["value"] or "")
    compared = _IF.match(hidden)
    if compared is None:
        return None
    equal = value(compared["left"]) == value(compared["right"])
    branch = compared["yes"] if equal == (compared["rule"] == "eq") else compared["no"] or "/return"
    inner = _RETURN.match(trim(branch))
    return value(inner["value"] or "") if inner is not None else None
