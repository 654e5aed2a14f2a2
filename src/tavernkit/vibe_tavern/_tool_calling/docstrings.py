"""Reads descriptions of parameters from docstrings, in common styles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from tavernkit._dataclass import dataclass

_GOOGLE_HEADING: Final = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_SECTION: Final = re.compile(r"(?:Returns?|Yields?|Raises|Examples?|Notes?|Args|Arguments|Parameters|Attributes):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SPHINX_ENTRY: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")
_SPHINX_FIELD: Final = re.compile(r":\w+[^:]*:")
_NUMPY_HEADING: Final = re.compile(r"Parameters\s*\n-{3,}\s*\n")
_NUMPY_ENTRY: Final = re.compile(r"(\w+)\s*(?::.*)?")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A description, and the descriptions of parameters."""

    summary: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str) -> Docstring:
    """Read a docstring in the style of Google, Sphinx or NumPy; sections other than parameters are left out."""
    numpy = _NUMPY_HEADING.search(text)
    if numpy is not None:
        return Docstring(text[: numpy.start()].strip(), _numpy_parameters(text[numpy.end() :]))
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if _SPHINX_ENTRY.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip(), _sphinx_parameters(lines[index:]))
        if _GOOGLE_HEADING.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip(), _google_parameters(lines[index + 1 :]))
        if _SECTION.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip())
    return Docstring(text.strip())


def _google_parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    indent: int | None = None
    for line in lines:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            break
        indent = depth if indent is None else indent
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if depth == indent else None
        if entry is not None:
            name = entry.group(1)
            found[name] = entry.group(2).strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _sphinx_parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _SPHINX_ENTRY.fullmatch(line.strip())
        if entry is not None:
            name = entry.group(1)
            found[name] = entry.group(2).strip()
        elif _SPHINX_FIELD.match(line.strip()):
            name = ""
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _numpy_parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        if index + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[index + 1].strip()):
            break
        if not line[0].isspace():
            entry = _NUMPY_ENTRY.fullmatch(line.strip())
            name = entry.group(1) if entry else ""
            if name:
                found[name] = ""
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
