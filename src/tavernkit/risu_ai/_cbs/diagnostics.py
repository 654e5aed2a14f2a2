"""What an expansion has to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass

DiagnosticKind: TypeAlias = Literal["kept", "unclosed", "limit", "failure", "more"]
"""A tag that stays in the text; one that the text ends in; a limit that was hit; a text RisuAI's parser throws at; or
that there is more to say than is said."""


@dataclass(frozen=True, slots=True)
class CBSDiagnostic:
    """One thing that was wrong; ``position`` is an index into the text as it was given."""

    kind: DiagnosticKind
    message: str
    position: int | None = None

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at {self.position})"


Report: TypeAlias = Callable[[CBSDiagnostic], None]
"""Where an expansion sends what it has to say."""


@dataclass(frozen=True, slots=True)
class CBSResult:
    """An expanded text and everything there was to say about it."""

    text: str
    diagnostics: tuple[CBSDiagnostic, ...] = ()
