"""How far an import is: what was stored, left out and warned about, and the ids of what was stored."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tavernkit._values import Json, JsonObject
from tavernkit.server.limits import MAX_JOB_WARNINGS


@dataclass(slots=True)
class Progress:
    """The progress of an import."""

    job_id: str
    owner: str
    folder: Path
    """The folder of the upload, which is removed from warnings."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    """How much of an upload was there already."""
    warnings: list[str] = field(default_factory=list[str])
    characters: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported characters by the names of their files."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported characters by slugs of their names."""
    groups: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported groups by the names of their files."""
    personas: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported personas by the names of their avatars' files."""
    presets: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported presets by the names of their files."""
    books: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported books by their names."""
    stored_folder: str | None = None
    """The id of the folder's settings, once they are stored."""
    done: int = 0
    more_warnings: int = 0
    served: bool = False
    """True if a folder is read again: unchanged files stay, changed ones become new versions."""
    save: Path | None = None
    """The save that is served: it is imported at each start, and its items become new versions."""
    seen: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Names of files or of parts of a save, by kind and id or key of their items."""

    def warn(self, message: str) -> None:
        """Report what was left out or changed."""
        message = message.replace(f"{self.folder / 'content'}{os.sep}", "")
        if len(self.warnings) < MAX_JOB_WARNINGS:
            self.warnings.append(message)
        else:
            self.more_warnings += 1

    def count(self, kind: str, number: int = 1) -> None:
        """Count what was imported."""
        if number:
            self.counts[kind] = self.counts.get(kind, 0) + number

    def skip(self, kind: str, number: int = 1) -> None:
        """Count what was there already."""
        if number:
            self.skipped[kind] = self.skipped.get(kind, 0) + number

    @property
    def uploaded(self) -> bool:
        """True for an import that is not repeated at every start."""
        return not self.served and self.save is None

    def result(self) -> JsonObject:
        """Return the result for clients."""
        imported: dict[str, Json] = {**self.counts}
        skipped: dict[str, Json] = {"skipped": {**self.skipped}} if self.skipped and self.uploaded else {}
        more = [f"… and {self.more_warnings} more warnings"] if self.more_warnings else []
        return {"imported": imported, **skipped, "warnings": [*self.warnings, *more]}
