"""Limits of scans and files, well above normal use; hitting one is reported."""

MAX_SCAN_DEPTH = 1000
"""Messages that an entry can scan (SillyTavern's own limit)."""

MAX_PASSES = 10_000
"""Passes of one scan."""

MAX_LEVELS = 100
"""Levels of ``delayUntilRecursion``; each distinct level is one more pass over everything."""

MAX_CHECKS = 200_000
"""How many checks of entries one scan may make, over all passes."""

MAX_SEARCHED_CHARS = 500_000_000
"""Characters of text that regex keys and keys with macros search in one scan, each pass again."""

MAX_HINT_CHARS = 500_000_000
"""Characters of text that are searched for near misses."""

MAX_REGEX_TIMEOUTS = 20
"""How many regex keys may time out in one scan before others are skipped."""

MAX_BOOK_BYTES = 512 * 1024 * 1024
"""Size of a world file."""

MAX_JSON_DEPTH = 100
"""Levels of nesting in a world file."""

MAX_WARNINGS_PER_BOOK = 100
"""Warnings about single entries of a book before they are only counted."""

MAX_HASHED_ENTRIES = 200
"""Entries that are hashed to find the owner of a stored timed effect that is filed under another entry's name."""

COMPILED_BOOKS = 16
"""Compiled sets of books that are kept for the next scan."""

JOINED_TEXTS = 64
"""Joined texts that a pass caches for separately searched keys."""

COMPILED_REGEX_NEEDS = 4096
"""Regex keys whose required texts are cached."""

TOKENS_OVERHEAD = 64
"""Tokens that a counter may add to a text, beyond one per byte, before counts are no longer skipped."""
