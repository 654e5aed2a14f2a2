"""`vibe_tavern/directives_validator`: envelopes and patch operations."""

from __future__ import annotations

from tavernkit.vibe_tavern._directives.envelope import validate
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tests.conformance.adapters.vibe_tavern.payload_validator import payload_validator
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if given["op"] == "normalize_patch_ops":
        prefixes = given.get("allowed_path_prefixes")
        return normalize_patch_ops(given["ops"], allowed_path_prefixes=prefixes).to_dict()
    return validate(
        given["envelope"],
        allowed_types=given.get("allowed_types"),
        type_aliases=given.get("type_aliases"),
        payload_validator=payload_validator(given.get("payload_validator")),
    ).to_dict()
