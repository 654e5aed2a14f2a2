"""Counts the resources of a run."""

from __future__ import annotations

from tavernkit._workers.clock import processor_clock
from tavernkit.risu_ai._triggers.limits import TriggerLimits
from tavernkit.risu_ai._triggers.signals import TriggerLimitError

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
