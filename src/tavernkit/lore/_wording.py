"""Wording that both engines share."""

from __future__ import annotations

from collections.abc import Sequence

LISTED_KEYS = 5
"""How many keys a reason names."""


def no_key_found(keys: Sequence[str]) -> str:
    """Return the reason of an entry none of whose keys was found."""
    if not keys:
        return "it has no keys"
    shown = ", ".join(repr(key) for key in keys[:LISTED_KEYS])
    more = f" and {len(keys) - LISTED_KEYS} more" if len(keys) > LISTED_KEYS else ""
    return f"no key was found ({shown}{more})"
