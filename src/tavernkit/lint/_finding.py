"""A finding of the linter."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.cards._validation_rules import Severity

RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
"""Severities, worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem: where it is, what is wrong, what would be right, and how bad it is.

    ``where`` is a JSON pointer into the file, ``entry`` the title of a book's entry; ``line`` and ``column`` (from 1)
    are a position in that text. ``code`` is stable for programs. ``fixable`` problems can be repaired without changing
    any prompt.
    """

    where: str
    message: str
    """What is wrong, in words."""
    severity: Severity
    """How bad it is: error, warning or info."""
    code: str
    hint: str = ""
    """What would be right, in words; may be empty."""
    line: int | None = None
    column: int | None = None
    fixable: bool = False
    entry: str = ""

    @property
    def place(self) -> str:
        """The place in words."""
        at = f":{self.line}:{self.column}" if self.line is not None else ""
        return f"{self.where}{at} {self.entry!r}" if self.entry else f"{self.where}{at}"

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "where": self.where,
            "entry": self.entry,
            "line": self.line,
            "column": self.column,
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "fixable": self.fixable,
        }


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """Group equal findings at several places: the first of each, and how many there are."""
    groups: dict[tuple[object, ...], tuple[Finding, int]] = {}
    for each in findings:
        key = (each.severity, each.code, each.message)
        first, count = groups.get(key, (each, 0))
        groups[key] = (first, count + 1)
    return [*groups.values()]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Order findings by severity; within a severity, in file order."""
    return sorted(findings, key=lambda each: RANK[each.severity])


def line_and_column(text: str, position: int | None) -> tuple[int | None, int | None]:
    """Turn a position in a text into a line and column, both from 1."""
    if position is None:
        return None, None
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
