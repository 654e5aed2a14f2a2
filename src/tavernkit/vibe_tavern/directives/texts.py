"""What the model is told about directives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tavernkit.vibe_tavern.whitespace import is_blank

ENVELOPE_INSTRUCTIONS: Final = """\
Answer with exactly one JSON object, without Markdown and without code fences.
It has two keys, both always present:
* assistant_text: a string for the reader
* directives: a list of objects, each with the keys type (string) and payload (object)"""


def system_text(*parts: str | None) -> str:
    """Join the parts of a system text that say something."""
    return "\n\n".join(part for part in parts if part is not None and not is_blank(part))


def repair_text(code: str, reasons: Sequence[str] = ()) -> str:
    """Ask for another answer in place of one that could not be used."""
    lines = [f"Your last answer could not be used ({code})."]
    if reasons:
        lines.append(f"What was wrong: {'; '.join(reasons)}")
    lines.append("Send the whole JSON object again in the required shape, and nothing else.")
    return "\n".join(lines)
