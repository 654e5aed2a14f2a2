"""`vibe_tavern/preflight`: which requests are refused, and by which rule."""

from __future__ import annotations

from tavernkit.vibe_tavern._capabilities import default_registry, validate_request
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    try:
        found = default_registry.resolve(given["provider"], given["model"], given.get("capabilities_overrides"))
        validate_request(
            found,
            stream=given.get("stream", False),
            tools=given.get("tools", False),
            response_format=given.get("response_format"),
        )
    except Exception as error:
        return {"error": error_form(error)}
    return {"ok": True}
