"""Decorators: lines that start with ``@@`` at the top of an entry's content."""

from __future__ import annotations

ACTIVATE = "@@activate"
"""Activates the entry without a key."""

DONT_ACTIVATE = "@@dont_activate"
"""Keeps the entry from being activated."""

KNOWN = (ACTIVATE, DONT_ACTIVATE)


def parse_decorators(content: str) -> tuple[tuple[str, ...], str]:
    """Split decorators from the text: those that are known, as written, and what remains as content.

    A line ``@@@name`` is the fallback of the line before it: it counts only if that one is unknown. Content that is
    nothing but decorators stays as it is.
    """
    if not content.startswith("@@"):
        return (), content
    decorators: list[str] = []
    fallback = False
    lines = content.split("\n")
    for number, line in enumerate(lines):
        if not line.startswith("@@"):
            return tuple(decorators), "\n".join(lines[number:])
        if line.startswith("@@@") and not fallback:
            continue
        name = line[1:] if line.startswith("@@@") else line
        known = name.startswith(KNOWN)
        if known:
            decorators.append(name)
        fallback = not known
    return tuple(decorators), content
