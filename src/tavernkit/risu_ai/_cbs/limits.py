"""Limits of one expansion, and the exceptions that end it early.

The first two limits are RisuAI's own; the others are far above normal use.
"""

from __future__ import annotations

CALL_LIMIT = 20
"""The maximum of RisuAI's counter of function calls and nested texts."""

LEVEL_SLOTS = 512
"""RisuAI tracks open tags and blocks down to this level; deeper ones never close."""

MAX_STEPS = 300_000
"""Work one expansion may do: tags (long ones count more), dice, repeated bodies, nested texts."""

SHORT_TAG = 64
"""A longer tag counts as one more step for every eight characters."""

INSERTED_STEPS = 4
"""A text that an ``#each`` inserts counts as one step for every sixteen (two to this power) characters."""

MAX_CHARACTERS = 16_000_000
"""Characters that one expansion may produce, including intermediate values."""

FREE_CHARACTERS = 1024
"""Results up to this size are covered by the step limit and not counted."""

MAX_ITEMS = 100_000
"""Items a list function may create."""

MAX_ROLLS = 100_000
"""Dice one tag may roll."""

MAX_WARNINGS = 100
"""How many different warnings one expansion gives."""

MAX_COMPILED_LEVELS = 40
"""Nesting up to which a text is compiled; deeper ones use the scanner, which needs no stack."""

MAX_TREE_DEPTH = 100
"""Total nesting of compiled texts that run inside each other."""

MAX_FOLDED = 4096
"""Characters of a result that is computed when a text is compiled."""

MAX_FOLDED_TOTAL = 64_000
"""Characters of all results that are computed when one text and what it inserts are compiled."""

MAX_FOLDED_INSERTS = 6
"""Nesting of the bodies of ``#each`` that are expanded when a text is compiled."""

MAX_COMPILED_TEXT = 400_000
"""Characters of a text that is worth compiling and keeping."""

CACHED_TEXT_BYTES = 48_000_000
"""About how much memory an engine uses to keep compiled texts."""

CACHED_INSERT_BYTES = 16_000_000
"""About how much memory an engine uses to keep compiled bodies of ``#each``."""

CACHED_RESULTS = 4096
"""Cached results of short tags that depend only on their text."""

CACHED_LISTS = 512
"""Cached short JSON lists."""


class FunctionFailure(Exception):  # noqa: N818  # not an error: it is how RisuAI keeps a tag
    """A function failed; its tag stays in the text. The message says why."""


class ParseFailure(FunctionFailure):
    """RisuAI's parser itself would throw: the outer text has no result.

    A function that expands another text (a field, a message) fails with it; nothing else catches it.
    """


class Returned(Exception):  # noqa: N818  # not an error: the text has its result
    """``{{return}}`` ended the text."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
