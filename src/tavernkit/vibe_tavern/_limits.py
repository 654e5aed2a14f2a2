"""Limits of this package. Each is well above normal use; hitting one is reported."""

from __future__ import annotations

from typing import Final

MAX_DIRECTIVES_BYTES: Final = 200_000
"""Size of an answer that is read as a directives envelope."""

SAMPLE_CHARACTERS: Final = 200
"""How much of a text is kept as a sample in attempts, traces and error details."""

MAX_REPAIRED_BYTES: Final = 50_000
"""Size of an answer that is repaired when it is not quite JSON."""

MAX_OBJECTS_TRIED: Final = 16
"""How many possible starts of an object are tried when an answer is repaired."""

MAX_TOOL_ARGS_BYTES: Final = 200_000
"""Size of the arguments of one tool call."""

MAX_TOOL_OUTPUT_BYTES: Final = 200_000
"""Size of the JSON text of one tool result."""

MAX_TOOL_OUTPUT_DEPTH: Final = 20
"""Nesting of a tool result."""

MAX_TOOL_OUTPUT_NODES: Final = 50_000
"""Total number of values in a tool result."""

MAX_TOOL_OUTPUT_KEYS: Final = 50_000
"""Keys of one mapping in a tool result."""

MAX_TOOL_OUTPUT_ITEMS: Final = 50_000
"""Items of one list in a tool result."""

MAX_TURNS: Final = 12
"""Requests of one tool loop run, unless configured."""

TOOL_TIMEOUT_SECONDS: Final = 120.0
"""Time for one tool call, unless configured."""

MAX_PARALLEL_TOOLS: Final = 8
"""Tools that run at the same time in parallel dispatch."""

MAX_LIQUID_BYTES: Final = 200_000
"""Size of a Liquid template, of its output, and of what it assigns."""

MAX_LIQUID_STEPS: Final = 200_000
"""Nodes that one Liquid template may render; work on long values, long lists and random numbers counts as more."""

MAX_LIQUID_CACHED_CHARACTERS: Final = 1_000_000
"""Total characters of cached Liquid templates; each takes about 150 bytes when parsed."""

MAX_LIQUID_WARNINGS: Final = 8
"""How many errors of one Liquid template are reported individually; the rest are counted."""

MAX_LIQUID_UNCLOSED: Final = 16
"""How many unclosed tags of a Liquid template are searched for; with more, the template counts as broken."""

MAX_DICE: Final = 1000
"""Dice that ``rollp`` throws at once."""

MAX_DATE_FORMAT_CHARACTERS: Final = 300
"""Length of the format of ``datetimeformat``."""
