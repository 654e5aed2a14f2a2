"""Language tags."""

from __future__ import annotations

from tavernkit._text import language_tag
from tests.conformance.runner import Case


def run(case: Case) -> object:
    value = case.input["value"]
    return {"normalized": language_tag.normalize(value), "valid": language_tag.is_valid(value)}
