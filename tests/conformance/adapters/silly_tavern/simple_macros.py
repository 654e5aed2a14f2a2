"""The few macros that occur in vectors of surfaces that take macro expansion as given."""

from __future__ import annotations

import re
from collections.abc import Callable

_MACRO = re.compile(r"\{\{(user|char|noop|newline|reverse::([^}]*))\}\}|<(user|char|bot)>", re.IGNORECASE)


class SimpleMacros:
    """Expands `{{user}} {{char}} {{noop}} {{newline}} {{reverse::text}}` and leaves everything else alone."""

    def __init__(self, user: str, char: str) -> None:
        self._user = user
        self._char = char

    def __call__(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        values = {"user": self._user, "char": character or self._char, "noop": "", "newline": "\n"}
        values["bot"] = values["char"]

        def value(found: re.Match[str]) -> str:
            name = (found[1] or found[3]).lower()
            expanded = values[name] if name in values else found[2][::-1]
            return escape(expanded) if escape else expanded

        return _MACRO.sub(value, text)
