"""The macro contracts that both platforms' engines implement."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tavernkit._values import Json

EnvironmentT_contra = TypeVar("EnvironmentT_contra", contravariant=True)


class MacroEnvironment(Protocol):
    """The names and variables that macros see. Platforms add more."""

    @property
    def character_name(self) -> str:
        """The value of ``{{char}}``."""
        ...

    @property
    def user_name(self) -> str:
        """The value of ``{{user}}``."""
        ...

    def get_var(self, name: str, scope: str = "local") -> Json:
        """Read a variable; None if it is not set."""
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
        """Return the expanded text. In normal mode, no text makes this raise."""
        ...


__all__ = ["MacroEngine", "MacroEnvironment"]
