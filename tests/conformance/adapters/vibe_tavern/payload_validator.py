"""The payload validators that the vectors describe as tables."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from tavernkit.vibe_tavern.directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern.directives.validator import PayloadValidator


def payload_validator(table: Mapping[str, Any] | None) -> PayloadValidator | None:
    if table is None:
        return None

    def check(kind: str, payload: dict[str, Any]) -> object:
        rule = table.get(kind, {})
        if "raise" in rule:
            raise getattr(builtins, rule["raise"]["class"])(rule["raise"]["message"])
        if "return" in rule:
            return rule["return"]
        for field in rule.get("required", ()):
            if not str(payload.get(field) or "").strip():
                return f"MISSING_{field.upper()}"
        if rule.get("patch_ops"):
            result = normalize_patch_ops(payload.get("ops", payload)).to_dict()
            if not result["ok"]:
                return result
            payload["ops"] = result["ops"]
        return None

    return check
