"""The payload validators that the vectors describe as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tavernkit.vibe_tavern._directives.definitions import PayloadValidator
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern._options import is_blank
from tests.conformance.adapters.vibe_tavern.errors import raised


def payload_validator(table: Mapping[str, Any] | None) -> PayloadValidator | None:
    if table is None:
        return None

    def check(kind: str, payload: dict[str, Any]) -> object:
        rule = table.get(kind, {})
        if "raise" in rule:
            raise raised(rule["raise"])
        if "return" in rule:
            return rule["return"]
        for field in rule.get("required", ()):
            if is_blank(payload.get(field)):
                return f"MISSING_{field.upper()}"
        if rule.get("patch_ops"):
            result = normalize_patch_ops(payload.get("ops", payload)).to_dict()
            if not result["ok"]:
                return result
            payload["ops"] = result["ops"]
        return None

    return check
