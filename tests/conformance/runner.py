"""Finds vectors, runs them through their adapters and compares."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import math
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
KNOWN_DIFFERENCES = HERE / "known_differences.toml"


@dataclass(frozen=True)
class Case:
    """One vector. `folder` is where its surface file lies, for vectors that name files."""

    surface: str
    folder: Path
    id: str
    input: Any
    expected: Any
    tags: tuple[str, ...] = ()
    note: str = ""


Adapter = Callable[[Case], object]


class UnavailableError(Exception):
    """Raised by an adapter that lacks a file which nobody may ship; ``checked`` is what it can tell all the same."""

    def __init__(self, reason: str, checked: dict[str, Any]) -> None:
        super().__init__(reason)
        self.checked = checked


class Missing:
    """Marks a key that the actual value does not have."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


@dataclass
class Outcome:
    """What became of one case: `differences` is empty when it passed. `lacking` names a file that is not there."""

    case: Case
    actual: object = None
    differences: list[str] = field(default_factory=list)
    error: str | None = None
    lacking: str | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None and self.lacking is None

    @property
    def failed(self) -> bool:
        return bool(self.differences) or self.error is not None


def surfaces(root: Path = VECTORS, pattern: str = "*") -> list[str]:
    """Names such as `core/trimmer` of every vector file below `root`."""
    found = (path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.jsonl"))
    return sorted(name for name in found if fnmatch(name, pattern) or fnmatch(name.split("/")[-1], pattern))


def cases(surface: str, root: Path = VECTORS) -> Iterator[Case]:
    """The cases of one surface, in file order."""
    path = root / f"{surface}.jsonl"
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if not line.strip():
                continue
            raw = json.loads(line)
            yield Case(
                surface=surface,
                folder=path.parent,
                id=raw["id"],
                input=raw["input"],
                expected=raw["expected"],
                tags=tuple(raw.get("tags", ())),
                note=raw.get("note", ""),
            )


@cache
def adapter(surface: str) -> Adapter | None:
    """The adapter of a surface, or nothing."""
    name = "tests.conformance.adapters." + surface.replace("/", ".")
    if importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name).run


@cache
def known_differences() -> dict[str, str]:
    """Ids that we knowingly do not match, with the reason."""
    return tomllib.loads(KNOWN_DIFFERENCES.read_text(encoding="utf-8"))


def run(case: Case) -> Outcome:
    """Run one case. Whatever the adapter raises is the outcome, not the end of the run."""
    run_adapter = adapter(case.surface)
    if run_adapter is None:
        raise LookupError(f"{case.surface} has no adapter")
    try:
        actual = run_adapter(case)
    except UnavailableError as error:
        expected = {key: case.expected[key] for key in error.checked if key in case.expected}
        return Outcome(case, error.checked, list(differences(expected, error.checked)), lacking=str(error))
    except Exception:
        return Outcome(case, error=traceback.format_exc())
    return Outcome(case, actual, list(differences(case.expected, actual)))


def differences(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """Compare by value: every key that `expected` has must be equal; an object may have more keys than expected."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            yield from differences(value, actual.get(key, MISSING), f"{where}/{key}")
        return
    if isinstance(expected, list) and isinstance(actual, (list, tuple)):
        if len(expected) != len(actual):
            yield f"{where}: {len(expected)} elements expected, {len(actual)} given"
        for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(left, right, f"{where}/{index}")
        return
    if not same_scalar(expected, actual):
        yield f"{where or '/'}: {show(expected, actual)}"


def same_scalar(expected: Any, actual: Any) -> bool:
    """Equal in JSON's sense: 1 equals 1.0, true does not equal 1."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
        return expected == actual or (math.isnan(expected) and math.isnan(actual))
    return type(expected) is type(actual) and expected == actual


def show(expected: Any, actual: Any) -> str:
    """A difference for people: long texts as a line diff."""
    if isinstance(expected, str) and isinstance(actual, str) and ("\n" in expected or len(expected) > 120):
        lines = difflib.unified_diff(
            expected.splitlines(keepends=True), actual.splitlines(keepends=True), "expected", "actual", n=1
        )
        return "texts differ\n" + "".join(f"    {line!r}\n" for line in lines)
    return f"expected {expected!r}, actual {actual!r}"
