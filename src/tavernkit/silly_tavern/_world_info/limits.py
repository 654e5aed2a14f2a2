"""What bounds a scan and the files it reads. Each is well above honest use; hitting one is reported."""

MAX_SCAN_DEPTH = 1000
"""Messages an entry can look at (SillyTavern's own limit)."""

MAX_PASSES = 10_000
"""Passes of one scan."""

MAX_LEVELS = 100
"""Levels of ``delayUntilRecursion``; each that differs is one more pass over everything."""

MAX_CHECKS = 200_000
"""Times that an entry is checked in one scan, all passes together."""

MAX_SEARCHED_CHARS = 500_000_000
"""Characters of text that regex keys and keys with macros search in one scan, each pass again."""

MAX_HINT_CHARS = 500_000_000
"""Characters of text that are searched for keys that nearly counted."""

MAX_REGEX_TIMEOUTS = 20
"""Regex keys that may run into their time limit in one scan before the others are no longer tried."""

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
"""Joined texts that a pass keeps for keys that are looked for on their own."""

COMPILED_REGEX_NEEDS = 4096
"""Regex keys for which it is remembered what a text must hold."""

TOKENS_OVERHEAD = 64
"""Tokens a counter may add to a text, beyond one a byte, before counts are no longer skipped."""
