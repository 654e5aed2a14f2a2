"""Every limit of this room in one place. Each is well above honest use; hitting one is reported."""

from __future__ import annotations

from typing import Final

MAX_DIRECTIVES_BYTES: Final = 200_000
"""Size of an answer that is read as a directives envelope."""

SAMPLE_CHARACTERS: Final = 200
"""How much of a text is kept as a sample in attempts, traces and error details."""

MAX_REPAIRED_BYTES: Final = 50_000
"""Size of an answer that is repaired when it is not quite JSON."""

MAX_OBJECTS_TRIED: Final = 16
"""Places in an answer where an object may begin that are tried, when answers are repaired."""

MAX_TOOL_ARGS_BYTES: Final = 200_000
"""Size of the arguments of one tool call."""

MAX_TOOL_OUTPUT_BYTES: Final = 200_000
"""Size of the JSON text of one tool result."""

MAX_TOOL_OUTPUT_DEPTH: Final = 20
"""Nesting of a tool result."""

MAX_TOOL_OUTPUT_NODES: Final = 50_000
"""Values in a tool result, counted all together."""

MAX_TOOL_OUTPUT_KEYS: Final = 50_000
"""Keys of one mapping in a tool result."""

MAX_TOOL_OUTPUT_ITEMS: Final = 50_000
"""Items of one list in a tool result."""

MAX_TURNS: Final = 12
"""Requests of one tool loop run, unless the caller says otherwise."""

TOOL_TIMEOUT_SECONDS: Final = 120.0
"""Time for one tool call, unless configured."""

MAX_PARALLEL_TOOLS: Final = 8
"""Tools that run at the same time in parallel dispatch."""

MAX_LIQUID_BYTES: Final = 200_000
"""Size of a Liquid template, of its output, and of what it assigns."""

MAX_LIQUID_STEPS: Final = 200_000
"""Nodes that one Liquid template may render; work on long values, long lists and random numbers counts as more."""

MAX_LIQUID_CACHED_CHARACTERS: Final = 1_000_000
"""Characters of Liquid templates that are kept parsed; each takes some 150 bytes."""

MAX_LIQUID_WARNINGS: Final = 8
"""Errors printed by one Liquid template that are reported one by one; of more only their number."""

MAX_LIQUID_UNCLOSED: Final = 16
"""Tags of a Liquid template that are opened and never closed: more are not looked for, the template is broken."""

MAX_DICE: Final = 1000
"""Dice that ``rollp`` throws at once."""

MAX_DATE_FORMAT_CHARACTERS: Final = 300
"""Length of the format of ``datetimeformat``."""
