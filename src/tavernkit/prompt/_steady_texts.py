"""Which texts of a prompt are the same in every turn with the same inputs."""

from __future__ import annotations

import re

from tavernkit._text.traced import Origin, Via, pieces_of

SHORT_TEXT = 8
"""Builders add their own separators and names; longer texts have a source."""

PURE_MACROS = frozenset(
    {
        *("char", "user", "bot", "name", "group", "charifnotgroup", "description", "personality", "scenario"),
        *("persona", "slot", "trim", "system", "mesexamples", "mesexamplesraw"),
        *("wibefore", "wiafter", "lorebefore", "loreafter", "anchorbefore", "anchorafter"),
    }
)
"""Macros that give the same result in every turn with the same inputs, or texts that know their own sources."""

STEADY_KINDS = frozenset(
    {
        *("added", "author's note", "card", "character", "context template", "group", "instruct template", "lore"),
        *("injection", "persona", "preset", "settings", "system prompt", "user"),
    }
)
"""Kinds of sources that stay the same. Lines of the chat are compared."""

_NAMES = frozenset({"char", "user"})
_MACRO = re.compile(r"\{\{(\w{1,40})\}\}")
_CONDITION = re.compile(r"\{\{(?:[#^](?:if|unless) \w{1,40}|/(?:if|unless)|else)\}\}")
_EVERY_OPENER = re.compile(r"\{\{")


def is_steady(origin: Origin | None, via: Via | None, length: int) -> bool:
    """Return True if text of this origin is the same in every turn with the same inputs, whatever lore is active.

    Args:
        origin: Where it came from, if known; nothing in the chat is steady.
        via: The macros that it went through; what a script replaced may be of the chat.
        length: How long it is.
    """
    change = via
    while change is not None:
        made = change.change
        written = [origin for _, _, origin, _, _ in pieces_of(made.text)]
        if made.kind != "expanded" or any(each is not None and each.kind not in STEADY_KINDS for each in written):
            return False
        change = change.before
    if not is_pure(via):
        return False
    if origin is None:
        return via is not None or length <= SHORT_TEXT
    return origin.kind in STEADY_KINDS and origin.kind != "lore" and has_pure_macros_only(origin.text)


def is_pure(via: Via | None) -> bool:
    """Return True if a text went through macros only that give the same in every turn, and through scripts."""
    while via is not None:
        change = via.change
        # Text written by a regex script is in the text itself; a macro in it is recorded as another change.
        if change.kind != "replaced" and (change.kind != "expanded" or change.name.lower() not in PURE_MACROS):
            return False
        via = via.before
    return True


def is_independent(text: str) -> bool:
    """Return True if no other text of the prompt has a part in this one, as one that sets a variable would.

    Args:
        text: The traced text.
    """
    return all(
        is_pure(via) and (origin is None or has_pure_macros_only(origin.text))
        for _, _, origin, _, via in pieces_of(text)
    )


def has_pure_macros_only(text: str) -> bool:
    """Return True if a text has no macros but such."""
    if "{{" not in text:
        return True
    text = _CONDITION.sub("", text)
    found = [name.lower() for name in _MACRO.findall(text)]
    return len(found) == len(_EVERY_OPENER.findall(text)) and PURE_MACROS.issuperset(found)


def has_one_branch(template: Origin, text: str) -> bool:
    """Return True if what a text has of a template is not divided by conditions, and can be nowhere else in it.

    Args:
        template: The template; most have no conditions.
        text: The text.
    """
    if not _CONDITION.search(template.text):
        return True
    places: list[int] = []
    for piece in pieces_of(text):
        via = piece[4]
        written = (piece,) if via is None else pieces_of(via.change.text)[:1]
        for start, end, origin, offset, _ in written:
            if origin is template:
                places += (offset, offset + end - start)
    part = template.text[min(places, default=0) : max(places, default=0)]
    names = [name for name in _MACRO.findall(part) if name.lower() not in _NAMES]
    return bool(names) and not _CONDITION.search(part) and template.text.count(part) == 1
