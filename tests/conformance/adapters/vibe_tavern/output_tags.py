"""`vibe_tavern/output_tags`: text after the pass, and the warnings of the pass."""

from __future__ import annotations

from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, transform
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.runner import Case


def run(case: Case) -> object:
    try:
        config = OutputTagsConfig.from_mapping(case.input["output_tags"])
    except Exception as error:
        return {"error": error_form(error)}
    result = transform(case.input["text"], config)
    return {"text": result.text, "warnings": [warning.to_dict() for warning in result.warnings]}
