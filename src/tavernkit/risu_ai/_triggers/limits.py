"""Limits of triggers, far above normal use."""

from __future__ import annotations

from tavernkit._dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """The budget of one run, including nested runs. RisuAI itself has only ``nested_runs``.

    ``steps``
        Executed effects; each iteration of a loop counts.
    ``seconds``
        Processor time, without the host's answers.
    ``text``, ``all_text``
        Characters of one text that is made or stored, and of all of them together.
    ``messages``, ``lore``
        The maximum messages of a chat and lore entries of a character that triggers may create.
    ``nested_runs``
        RisuAI's own limit: runs that triggers without low level access may start, siblings and depth together.
    ``all_nested_runs``, ``depth``
        The same for all triggers, and how deeply runs may be nested.
    ``host_calls``
        Questions to the host.
    ``events``
        Entries of the log; later ones are only counted.
    ``lua_instructions``, ``lua_seconds``, ``lua_memory``, ``lua_code``
        Limits of one call of a Lua script: instructions, processor time, bytes, and characters of code.
    """

    steps: int = 200_000
    seconds: float = 10.0
    text: int = 4_000_000
    all_text: int = 64_000_000
    messages: int = 100_000
    lore: int = 20_000
    nested_runs: int = 10
    all_nested_runs: int = 1000
    depth: int = 64
    host_calls: int = 1000
    events: int = 10_000
    lua_instructions: int = 50_000_000
    lua_seconds: float = 5.0
    lua_memory: int = 64_000_000
    lua_code: int = 1_000_000


CACHED_PROGRAMS = 256
"""Trigger lists that are kept compiled."""

LUA_SANDBOXES = 64
"""Lua sandboxes that are kept, one per mode or manual name."""

LUA_HEADROOM = 64_000_000
"""Bytes that the allocator allows above a script's limit, so that its end can be handled."""

MAX_LUA_ARGUMENTS = 16_000_000
"""Bytes that a script is given in one call; well below the headroom."""

LUA_QUICK_SEARCH = 1_000_000
"""The maximum steps of Lua's own searches; others run in Lua, where every step counts."""

LUA_LOAD_COST = 10
"""Instructions that every character of code counts for when it is compiled."""

LUA_KEPT_MEMORY = 64_000_000
"""Total bytes that the scripts of one chat may keep between calls; the least recently called is dropped."""

LUA_REUSED_MEMORY = 16_000_000
"""Bytes that they may have had for their worker process to be used by others afterwards."""

LUA_GRACE = 1.25
"""How many times its processor time a script may take before its process is killed."""

LUA_SENT_VARIABLES = 32
"""How many variables are sent with a call: those that the script has read lately."""

MAX_SENT_VARIABLE = 1000
"""Longer names and values are sent only when a script asks."""

LUA_HOOK_INTERVAL = 100
"""Lua instructions between two checks of the budget."""

REQUESTS_PER_WINDOW = 5
"""Web requests of Lua scripts in one window, plus one: RisuAI says five and means six."""

REQUEST_WINDOW_MILLISECONDS = 60_000
"""How long a window lasts."""

MAX_URL = 120
"""Characters of an address that Lua scripts may request."""
