"""Suppressed findings: ``.tavernlint`` files in the folder of a file, or above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tavernkit._dataclass import dataclass
from tavernkit.errors import Warn, log_warning
from tavernkit.lint._finding import Finding

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
