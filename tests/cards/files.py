"""The card files of the conformance vectors, and small makers of files for tests."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent.parent / "conformance" / "vectors" / "cards" / "files"


def card(name: str) -> Any:
    """The JSON of one of the vectors' files."""
    return json.loads((FILES / name).read_text(encoding="utf-8-sig"))


def zip_of(members: dict[str, bytes | str], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()
