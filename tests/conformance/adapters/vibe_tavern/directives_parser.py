"""`vibe_tavern/directives_parser`: the JSON object in an answer."""

from __future__ import annotations

from tavernkit.vibe_tavern._directives.envelope import parse_json
from tests.conformance.runner import Case


def run(case: Case) -> object:
    limits = {"max_bytes": case.input["max_bytes"]} if "max_bytes" in case.input else {}
    return parse_json(case.input["content"], **limits).to_dict()
