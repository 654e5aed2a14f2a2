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
    texts = [file.read_text(encoding="utf-8") for file in (SOURCE / "lint").glob("*.py")]
    of_cards = [file.read_text(encoding="utf-8") for file in (SOURCE / "cards").glob("*.py")]
    texts += [text for text in of_cards if "Severity" in text]
    used = {code for text in texts for code in CODE.findall(text)}
    used |= {kind.upper() for kind in get_args(DiagnosticKind)}
    explained = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert used == explained
