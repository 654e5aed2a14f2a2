"""The runs of an evaluation as JSON lines, written as they end: what an interrupted evaluation goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tavernkit._values import is_object
from tavernkit.errors import Warn, log_warning
from tavernkit.vibe_tavern._evals.report import RunRecord

FILE_NAME: Final = "runs.jsonl"
"""What the file is called in the folder of a report."""


class RunLog:
    """The file ``runs.jsonl`` of a folder: one JSON object a run, for the ``before`` of ``run_evals``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def append(self, record: RunRecord) -> None:
        """Add a run, on a line of its own whatever an interrupt has left before it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = (json.dumps(record.to_dict(), ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with self.path.open("ab+") as stream:
            if stream.seek(0, os.SEEK_END) > 0:
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    line = b"\n" + line
            stream.write(line)

    def read(self, *, warn: Warn = log_warning) -> Iterator[RunRecord]:
        """The runs so far; a line that is not a record, as an interrupt may leave one, is left out with a warning."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    value: object = json.loads(line)
                except (ValueError, RecursionError):
                    value = None
                if is_object(value):
                    yield RunRecord.from_dict(value)
                else:
                    warn(f"{self.path.name}, line {number} was left out: it is not a record of a run")
