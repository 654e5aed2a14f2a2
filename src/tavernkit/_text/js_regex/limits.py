"""The limits of regular expressions."""

from __future__ import annotations

DEFAULT_TIMEOUT = 0.1
"""Seconds of processor time that a call may take before it counts as no match."""

STEPS_PER_SECOND = 50_000_000
"""Engine steps that certainly fit into a second; the slowest kind takes 4 ns, most take 1 or 2."""

SUBJECT_CACHE_SIZE = 16
"""How many non-ASCII texts are cached in the engine's form, because many expressions run on one text."""

MEASURES_CACHE_SIZE = 64
"""How many texts are cached with their measures and the expressions that are fast on them."""

MEASURED_LENGTH = 4_000_000
"""The total characters of these texts."""

BOUNDS_CACHE_SIZE = 1024
"""How many fast expressions are recorded per text."""

KEPT_LENGTH = 16_384
"""The maximum length of the last searched text that an expression keeps."""

COMPILE_CACHE_SIZE = 2048
"""How many compiled expressions are kept."""

MAX_DEPTH = 50
"""How deep groups, or classes of ``v`` mode, may be nested: each level takes up to eight calls of Python."""

MAX_SOURCE_LENGTH = 30_000
"""How many UTF-16 units a pattern may have: reading it takes linear time, and is not part of a call's time limit."""

MAX_PARTS = 4_000
"""How many groups, classes, assertions and repetitions a pattern may have: they take longer to read than characters."""

MAX_WRITTEN_LENGTH = 200_000
"""The maximum total length of classes as written for the engine, with case variants."""

MAX_JUDGED_LENGTH = 10_000
"""The maximum length of a pattern whose cost is computed; a longer one always runs in a worker process."""

MAX_JUDGED_PARTS = 500
"""How many groups, classes, assertions and repetitions such a pattern may have."""

MAX_PROPERTIES = 16
"""How many ``\\p{…}`` a pattern that is compiled in this process may have: with ``i`` each takes 0.3 ms and 15 KB. A
pattern with more, or with a property of strings (1 ms and 600 KB each), is compiled and run in a worker process."""

LARGE_LENGTH = 2_000
"""The maximum length of a pattern in the main cache; only a few larger ones are cached."""

LARGE_CACHE_SIZE = 64
"""How many of these are cached."""

MAX_REPLACED_LENGTH = 20_000_000
"""The maximum length of a text after a template replacement; a text that would be longer is left unchanged."""

GIVEN_UP_CACHE_SIZE = 128
"""How many timed-out calls are remembered, so that they are not tried again at once."""

GIVEN_UP_SECONDS = 60.0
"""How long they are remembered."""
