"""The macro contracts that both platforms' engines implement."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tavernkit._values import Json

EnvironmentT_contra = TypeVar("EnvironmentT_contra", contravariant=True)


class MacroEnvironment(Protocol):
    """What a text is expanded against: names and variables. Platforms know more."""

    @property
    def character_name(self) -> str:
        """The name ``{{char}}`` gives."""
        ...

    @property
    def user_name(self) -> str:
        """The name ``{{user}}`` gives."""
        ...

    def get_var(self, name: str, scope: str = "local") -> Json:
        """Read a variable; nothing when it is not set."""
        ...

    def set_var(self, name: str, value: Json, scope: str = "local") -> None:
        """Write a variable."""
        ...

    def has_var(self, name: str, scope: str = "local") -> bool:
        """Return True if a variable is set."""
        ...


class MacroEngine(Protocol[EnvironmentT_contra]):
    """Expands macros in a text."""

    def expand(self, text: str, environment: EnvironmentT_contra, /) -> str:
        """Return the expanded text. In normal mode nothing a text holds makes this raise."""
        ...


__all__ = ["MacroEngine", "MacroEnvironment"]
