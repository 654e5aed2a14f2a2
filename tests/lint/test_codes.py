"""Every code that lint can report is explained in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import tavernkit
from tavernkit.silly_tavern._macros.call import DiagnosticKind

SOURCE = Path(tavernkit.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "reference" / "lint-codes.md"
CODE = re.compile(r'"([A-Z]{3,}(?:_[A-Z]+)*|[A-Z]+(?:_[A-Z]+)+)"')


def test_every_code_has_a_line() -> None:
    files = [*(SOURCE / "lint").glob("*.py"), *(SOURCE / "cards").glob("_validation*.py")]
    used = {code for file in files for code in CODE.findall(file.read_text(encoding="utf-8"))}
    used |= {kind.upper() for kind in get_args(DiagnosticKind)}
    explained = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert used == explained
