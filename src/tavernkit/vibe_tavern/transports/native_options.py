"""Request options for providers with a protocol of their own."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.errors import Warn
from tavernkit.values import JsonObject


def native_options(
    request: JsonObject,
    *,
    passed: frozenset[str],
    renamed: Mapping[str, str],
    translated: frozenset[str],
    name: str,
    warn: Warn,
) -> JsonObject:
    """Pick and rename the options a provider knows; the others are left out, with one warning that names them."""
    native: JsonObject = {}
    unknown: list[str] = []
    for key, value in request.items():
        if value is None or key in translated:
            continue
        if key in passed:
            native[key] = value
        elif key in renamed:
            native[renamed[key]] = value
        else:
            unknown.append(key)
    if unknown:
        warn(f"{name} does not take {', '.join(sorted(unknown))}: left out of the request")
    return native
