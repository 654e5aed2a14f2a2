"""`vibe_tavern/directives_runner`: whole runs against a scripted model."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from tavernkit.vibe_tavern._directives.runner import DirectivesResult, DirectivesRunner, ResultValidator
from tests.conformance.adapters.vibe_tavern import script
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.adapters.vibe_tavern.payload_validator import payload_validator
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    recording = script.RecordingRunner(given["responses"])
    arguments = dict(given["run"])
    options = dict(arguments.pop("structured_output_options", None) or {})
    if "payload_validator" in options:
        options["payload_validator"] = payload_validator(options["payload_validator"])
    validator = _requires(arguments.pop("require_types", None))
    try:
        runner = DirectivesRunner(recording, script.runner_config(given))
        result = asyncio.run(runner.run(**arguments, structured_output_options=options, result_validator=validator))
    except Exception as error:
        return {"requests": recording.requests, "error": error_form(error)}
    return {"requests": recording.requests, "result": {"assistant_text": result.text, **_fields(result)}}


def _fields(result: DirectivesResult) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(result).items() if name != "text"}


def _requires(types: list[str] | None) -> ResultValidator | None:
    if types is None:
        return None

    def check(result: DirectivesResult) -> list[str]:
        present: list[Any] = [directive["type"] for directive in result.directives]
        return [f"missing {kind}" for kind in types if kind not in present]

    return check
