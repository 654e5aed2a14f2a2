"""Reads what was recorded from V8."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> list[dict[str, Any]]:
    with (FIXTURES / name).open(encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def bits(number: float) -> str:
    return "NaN" if math.isnan(number) else struct.pack(">d", number).hex()


def from_bits(text: str) -> float:
    return struct.unpack(">d", bytes.fromhex(text))[0]
