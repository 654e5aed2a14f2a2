"""`vibe_tavern/request_policy`: options after the policy, and the request that is sent."""

from __future__ import annotations

from tavernkit.vibe_tavern import _prompt_runner as prompt_runner
from tavernkit.vibe_tavern._capabilities import default_registry
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    try:
        found = default_registry.resolve(given["provider"], "m", given.get("capabilities_overrides"))
        options = prompt_runner.normalize_options(given["options"])
        request = prompt_runner.filter_request({"model": "m", "messages": [], **options}, found)
    except Exception as error:
        return {"error": error_form(error)}
    return {"options": options, "request": request}
