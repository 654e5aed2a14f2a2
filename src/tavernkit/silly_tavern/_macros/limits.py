"""Limits of macro expansion, well above normal use; hitting one is reported."""

from __future__ import annotations

MAX_DEPTH = 2_000
"""How deeply blocks and arguments may be nested."""

MAX_RESOLVE_DEPTH = 16
"""How deeply handlers may expand texts that call handlers."""

MAX_STEPS = 250_000
"""How many macros one expansion may run."""

MAX_OUTPUT_CHARS = 16_000_000
"""How many characters the macros of one expansion may produce together."""

MAX_PARSED_CHARS = 1_000_000
"""How many characters one expansion may parse beyond its own text: malformed blocks are parsed again at each level."""

MAX_TOKENS = 1_000_000
"""A text with more tokens is not expanded, because the parser's memory is proportional to them."""

STEPS_OF_A_REPORT = 3
"""The cost of reporting a problem, besides its macro: a failing macro costs as much as several that run."""

FREE_TOKENS_OF_A_STEP, TOKENS_OF_A_STEP = 8, 2
"""This many tokens outside of macros that ran, in malformed text, count as a macro in a build."""

MAX_CACHED_TEXTS = 2_048
MAX_CACHED_TRACED_TEXTS = 256
"""How many parsed texts an engine keeps."""
MAX_KNOWN_CHARS = 50_000
"""Results that contain only names are cached up to this length."""
MAX_KNOWN_NAMES = 8
"""Pairs of names for which results of one text are kept."""

MAX_CACHED_CHARS = 1_000_000
"""A longer text is parsed each time it is expanded."""

MAX_CACHED_CHARS_IN_ALL = 4_000_000
"""How many characters of parsed text an engine keeps before it clears its cache."""

MAX_CACHED_DRAWS = 4_096
"""How many ``{{pick}}`` draws are kept."""

MAX_CACHED_HASHES = 512
"""How many hashes of texts with a ``{{pick}}`` are kept."""

MAX_HASHED_CHARS = 32_768
"""The hash of a longer text is not kept."""

MAX_DICE = 100_000
"""How many dice one ``{{roll}}`` may throw."""

MAX_DICE_IN_ALL = 1_000_000
"""How many dice one expansion may throw."""

MAX_VARIABLE_CHARS = 4_000_000
"""How many characters of variables one expansion may read, those of long values only."""

FREE_VARIABLE_CHARS = 256
"""The length from which a value counts."""

MAX_ARRAY_LENGTH = 100_000
"""The maximum length of an array in a variable after writing to an index."""
