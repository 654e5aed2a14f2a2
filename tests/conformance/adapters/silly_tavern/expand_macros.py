"""Macro expansion for surfaces that are given only the names of user and character."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment, silly_tavern_registry

ENGINE = MacroEngine(silly_tavern_registry())


class ExpandMacros:
    """Expands macros with the real engine, in the form that lore and regex scripts ask for."""

    def __init__(self, user: str, char: str) -> None:
        self._environment = MacroEnvironment(user_name=user, character_name=char)

    def __call__(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        return ENGINE.expand(
            text, self._environment, character_name=character, post_process=escape, warn=lambda message: None
        )
