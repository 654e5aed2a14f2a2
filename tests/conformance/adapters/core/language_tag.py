"""Language tags."""

from __future__ import annotations

from tavernkit._text.coerce import language_tag
from tests.conformance.runner import Case


def run(case: Case) -> object:
    normalized = language_tag(case.input["value"])
    return {"normalized": normalized, "valid": normalized is not None}
