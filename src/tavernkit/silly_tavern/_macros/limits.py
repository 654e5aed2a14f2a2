"""Limits of macro expansion: each well above honest use, each reported when it is hit."""

from __future__ import annotations

MAX_DEPTH = 2_000
"""How deep blocks and arguments may be nested."""

MAX_RESOLVE_DEPTH = 16
"""How deep handlers may expand texts that call handlers that expand texts."""

MAX_STEPS = 250_000
"""How many macros one expansion may run."""

MAX_OUTPUT_CHARS = 16_000_000
"""How many characters the macros of one expansion may produce together."""

MAX_PARSED_CHARS = 1_000_000
"""How many characters one expansion may parse beyond its own text: malformed blocks are parsed again at each level."""

MAX_TOKENS = 1_000_000
"""A text with more tokens stays as it is: the parser's memory is in proportion to them."""

STEPS_OF_A_REPORT = 3
"""What a report of a problem counts in a build besides its macro: a macro that fails costs several that run."""

FREE_TOKENS_OF_A_STEP, TOKENS_OF_A_STEP = 8, 2
"""Tokens that belong to a macro that ran; so many others, in text that is malformed, count as a macro in a build."""

MAX_CACHED_TEXTS = 2_048
MAX_CACHED_TRACED_TEXTS = 256
"""How many parsed texts an engine keeps."""
MAX_KNOWN_CHARS = 50_000
"""Results that hold nothing but names are kept, if they are no longer."""
MAX_KNOWN_NAMES = 8
"""Pairs of names for which results of one text are kept."""

MAX_CACHED_CHARS = 1_000_000
"""A longer text is parsed each time it is expanded."""

MAX_CACHED_CHARS_IN_ALL = 4_000_000
"""How many characters of text an engine keeps parsed; then it starts again."""

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
"""A longer value counts."""

MAX_ARRAY_LENGTH = 100_000
"""How long an array in a variable may get by writing to an index."""
