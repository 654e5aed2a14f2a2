"""Diagnostics of an expansion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass

DiagnosticKind: TypeAlias = Literal["kept", "unclosed", "limit", "failure", "more"]
"""A tag that stays in the text; an unclosed one; a limit that was hit; a text at which RisuAI's parser throws; or too
many diagnostics."""


@dataclass(frozen=True, slots=True)
class CBSDiagnostic:
    """One problem; ``position`` is an index into the original text."""

    kind: DiagnosticKind
    message: str
    position: int | None = None

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at {self.position})"


Report: TypeAlias = Callable[[CBSDiagnostic], None]
"""Receives the diagnostics of an expansion."""


@dataclass(frozen=True, slots=True)
class CBSResult:
    """An expanded text and its diagnostics."""

    text: str
    diagnostics: tuple[CBSDiagnostic, ...] = ()
