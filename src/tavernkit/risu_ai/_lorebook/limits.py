"""Limits of one lorebook scan, far above normal use; hitting one is reported."""

from __future__ import annotations

MAX_PASSES = 1000
"""Passes over the entries in one scan; each activates at least one, so normal books need far fewer."""

MAX_LOOKS = 200_000
"""How many checks of entries one scan may make, over all passes; many keys or decorators count more."""

LOOKED_AT = 16
"""Keys and decorators of an entry that count as one more check."""

MAX_HITS = 100_000
"""Keys found that are logged."""

MAX_REGEX_WORK = 1_000_000
"""Regex keys that are tried in one scan; a long text counts as one more for every 256 characters."""

MAX_SLOW_KEYS = 20
"""Searches for regex keys that may take too long before no more are tried."""

MAX_REPLACED = 200_000_000
"""Characters of a text that lore which replaces something in it may go through."""
