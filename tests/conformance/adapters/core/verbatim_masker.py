"""Verbatim masking."""

from __future__ import annotations

from tavernkit._text.verbatim_masker import DEFAULT_ESCAPE_HATCH, EscapeHatch, mask, unmask
from tavernkit.errors import ConfigError
from tests.conformance.runner import Case


def run(case: Case) -> object:
    try:
        hatch = DEFAULT_ESCAPE_HATCH
        if "escape_hatch" in case.input:
            hatch = EscapeHatch.from_mapping(case.input["escape_hatch"])
        masked, placeholders = mask(case.input["text"], hatch)
    except ConfigError as error:
        return {"error": {"class": type(error).__name__, "code": error.code}}
    return {"masked": masked, "placeholders": placeholders, "unmasked": unmask(masked, placeholders)}
