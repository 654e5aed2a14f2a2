"""A finding of the linter, and suppressed findings: ``.tavernlint`` files in the folder of a file, or above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.cards._requirements import Severity
from tavernkit.errors import Warn, log_warning

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


FILE_NAME = ".tavernlint"
MAX_BYTES = 256 * 1024
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Suppression:
    """One line: which files (a pattern, relative to the folder of the line), and which codes at which place.

    ``*`` means all codes; an empty place means every place, otherwise it is a prefix.
    """

    folder: Path
    files: str
    codes: Sequence[str]
    place: str = ""

    def covers(self, path: Path, finding: Finding) -> bool:
        """Return True if the line suppresses a finding."""
        try:
            name = path.resolve().relative_to(self.folder).as_posix()
        except ValueError:
            return False
        return (
            (fnmatchcase(name, self.files) or fnmatchcase(path.name, self.files))
            and (finding.code in self.codes or EVERYTHING in self.codes)
            and finding.where.startswith(self.place)
        )


def without_suppressed(
    path: Path, findings: Iterable[Finding], *, warn: Warn = log_warning
) -> tuple[list[Finding], int]:
    """Remove findings that a ``.tavernlint`` file suppresses; return the rest and how many were removed.

    Args:
        path: The file that the findings are about.
        findings: What was found.
        warn: Called with lines that cannot be read.
    """
    lines = [line for folder in path.resolve().parents for line in _lines(folder, warn)]
    found = [*findings]
    kept = [each for each in found if not any(line.covers(path, each) for line in lines)]
    return kept, len(found) - len(kept)


def _lines(folder: Path, warn: Warn) -> list[Suppression]:
    """Read the lines ``pattern: CODE, CODE at /place``; ``#`` starts a comment."""
    path = folder / FILE_NAME
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return []
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    read: list[Suppression] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        files, colon, rest = line.rpartition(":")
        codes, _, place = rest.partition(" at ")
        names = [name.strip() for name in codes.split(",") if name.strip()]
        if not colon or not names:
            warn(f"{path}: line {number} must look like 'aria.png: NEVER_FIRES'")
            continue
        read.append(Suppression(folder, files.strip(), names, place.strip()))
    return read
