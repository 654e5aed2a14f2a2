"""Limits of triggers, far above normal use, the budget that counts what a run has used, and how a run ends early."""

from __future__ import annotations

from tavernkit._dataclass import dataclass
from tavernkit._workers import processor_clock


class RunAbortedError(Exception):
    """The run ends at once and has no result."""


class TriggerFailedError(Exception):
    """RisuAI would throw here; ``kind`` is the JavaScript error class it would be."""

    def __init__(self, message: str, *, kind: str = "TypeError") -> None:
        super().__init__(message)
        self.kind = kind


class TriggerLimitError(TriggerFailedError):
    """A safety limit was hit; ``limit`` names it."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message, kind="RangeError")
        self.limit = limit


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


_STEPS_BETWEEN_LOOKS = 16
"""Reading the clock takes as long as a small effect."""


class Budget:
    """What is left of a run's limits; nested runs share it with the one that started them."""

    __slots__ = ("_host_calls", "_spent", "_started", "_steps", "_text", "limits", "nested_runs")

    def __init__(self, limits: TriggerLimits) -> None:
        self.limits = limits
        self.nested_runs = 0
        self._steps = limits.steps
        self._text = limits.all_text
        self._host_calls = limits.host_calls
        self._started = processor_clock()
        self._spent = 0.0

    def step(self, count: int = 1) -> None:
        """Count effects."""
        self._steps -= count
        if self._steps < 0:
            raise TriggerLimitError(f"more than {self.limits.steps} effects in one run", limit="steps")
        if not self._steps % _STEPS_BETWEEN_LOOKS:
            self.check_time()

    def check_time(self) -> None:
        """Stop a run that takes too long; for effects that process many items."""
        if processor_clock() - self._started + self._spent > self.limits.seconds:
            raise TriggerLimitError(f"the run took more than {self.limits.seconds} seconds", limit="seconds")

    def text(self, text: str) -> str:
        """Count a text and return it."""
        self.size(len(text))
        return text

    def size(self, length: int) -> None:
        """Count a text of that length, before it is made."""
        if length > self.limits.text:
            raise TriggerLimitError(f"a text of more than {self.limits.text} characters", limit="text")
        self._text -= length
        if self._text < 0:
            raise TriggerLimitError(
                f"texts of more than {self.limits.all_text} characters in one run", limit="all_text"
            )

    def host_call(self) -> None:
        """Count a call of the host."""
        self._host_calls -= 1
        if self._host_calls < 0:
            raise TriggerLimitError(
                f"more than {self.limits.host_calls} calls of the host in one run", limit="host_calls"
            )

    def spend(self, seconds: float) -> None:
        """Count processor time of another process; negative values correct this process's own."""
        self._spent += seconds

    def count(self, name: str, number: int, most: int) -> None:
        """Refuse more items of a kind than allowed."""
        if number > most:
            raise TriggerLimitError(f"more than {most} {name}", limit=name)
