"""The limits of regular expressions."""

from __future__ import annotations

DEFAULT_TIMEOUT = 0.1
"""Seconds of processor time that a call may take before it counts as no match."""

STEPS_PER_SECOND = 50_000_000
"""Steps of the engine that certainly fit into a second; the slowest kind was seen to take 4 ns, most take 1 or 2."""

SUBJECT_CACHE_SIZE = 16
"""How many texts beyond ASCII are kept in the form the engine needs, as many expressions run on one text."""

MEASURES_CACHE_SIZE = 64
"""How many texts are kept with what is known of them: their measures, and which expressions are quick on them."""

MEASURED_LENGTH = 4_000_000
"""How many characters these texts may have together."""

BOUNDS_CACHE_SIZE = 1024
"""How many expressions are known to be quick on one text."""

KEPT_LENGTH = 16_384
"""How long a text may be that an expression keeps because it was the last that it was searched in."""

COMPILE_CACHE_SIZE = 2048
"""How many compiled expressions are kept."""

MAX_DEPTH = 50
"""How deep groups, or classes of ``v`` mode, may be nested: each level takes up to eight calls of Python."""

MAX_SOURCE_LENGTH = 30_000
"""How many UTF-16 units a pattern may have: reading it takes linear time, and is not part of a call's time limit."""

MAX_PARTS = 4_000
"""How many groups, classes, assertions and repetitions a pattern may have: they take longer to read than characters."""

MAX_WRITTEN_LENGTH = 200_000
"""How long classes may become together when they are written for the engine, with the other case of their letters."""

MAX_JUDGED_LENGTH = 10_000
"""How long a pattern may be whose cost is worked out; a longer one always runs in a worker process."""

MAX_JUDGED_PARTS = 500
"""How many groups, classes, assertions and repetitions such a pattern may have."""

MAX_PROPERTIES = 16
"""How many ``\\p{…}`` a pattern may have that is compiled in this process: with ``i`` each takes 0.3 ms and 15 KB. One
with more, or with a property of strings (1 ms and 600 KB each), is compiled and run in a worker process."""

LARGE_LENGTH = 2_000
"""How long a pattern may be that is kept compiled with all others; of larger ones only a few are kept."""

LARGE_CACHE_SIZE = 64
"""How many of these are kept."""

MAX_REPLACED_LENGTH = 20_000_000
"""How long a text may become by a replacement template; one that would be longer is left as it was."""

GIVEN_UP_CACHE_SIZE = 128
"""How many calls whose match ran out of time are remembered, so that they are not tried again at once."""

GIVEN_UP_SECONDS = 60.0
"""How long they are remembered."""
