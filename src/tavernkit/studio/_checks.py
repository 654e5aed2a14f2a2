"""Lint findings in the current documents."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tavernkit._values import Json, JsonObject
from tavernkit.lint import lint_file
from tavernkit.studio._document import JSONL, RISU_CHAT, Document, file_content
from tavernkit.studio._workspace import State
from tavernkit.studio.errors import StudioError

MAX_FINDINGS: Final = 500
_CHECKED: Final = frozenset({"card", "book", "preset", "context_template", "instruct", "regex"})
_SEVERITIES: Final = {"info": "note"}


def check(state: State) -> JsonObject:
    """Return the findings of all active documents."""
    found: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="tavernkit-studio-") as folder:
        for document in state.documents.values():
            if document.id in state.active and document.kind in _CHECKED:
                found += _findings(document, Path(folder))
    return {"findings": found[:MAX_FINDINGS]}


def _findings(document: Document, folder: Path) -> list[Json]:
    if document.format in (JSONL, RISU_CHAT):
        return []
    path = folder / f"{document.id}{Path(document.file_name).suffix}"
    try:
        path.write_bytes(file_content(document))
    except StudioError as error:
        return [_row(document, "", "error", "CANNOT_WRITE", str(error), "")]
    _, findings = lint_file(path)
    return [
        _row(document, each.where if each.where != "/" else "", str(each.severity), each.code, each.message, each.hint)
        for each in findings
    ]


def _row(document: Document, pointer: str, severity: str, code: str, message: str, hint: str) -> JsonObject:
    return {
        "document": document.id,
        "pointer": pointer,
        "severity": _SEVERITIES.get(severity, severity),
        "code": code,
        "message": message,
        "hint": hint,
    }
