"""Counts what a run uses."""

from __future__ import annotations

import time

from tavernkit.risu_ai.triggers.limits import TriggerLimits
from tavernkit.risu_ai.triggers.signals import TriggerLimitError


class Budget:
    """What is left of a run's limits; nested runs share it with the one that started them."""

    __slots__ = ("_deadline", "_host_calls", "_steps", "_text", "limits", "nested_runs", "waited")

    def __init__(self, limits: TriggerLimits) -> None:
        self.limits = limits
        self.nested_runs = 0
        self.waited = 0.0
        self._steps = limits.steps
        self._text = limits.all_text
        self._host_calls = limits.host_calls
        self._deadline = time.monotonic() + limits.seconds

    def step(self) -> None:
        """Pay for one effect."""
        self._steps -= 1
        if self._steps < 0:
            raise TriggerLimitError(f"more than {self.limits.steps} effects in one run", limit="steps")
        self.check_time()

    def check_time(self) -> None:
        """Stop a run that takes too long; for what goes through many things in one effect."""
        if time.monotonic() > self._deadline:
            raise TriggerLimitError(f"the run took more than {self.limits.seconds} seconds", limit="seconds")

    def text(self, text: str) -> str:
        """Pay for a text and hand it back."""
        self.size(len(text))
        return text

    def size(self, length: int) -> None:
        """Pay for a text of that length, before it is made."""
        if length > self.limits.text:
            raise TriggerLimitError(f"a text of more than {self.limits.text} characters", limit="text")
        self._text -= length
        if self._text < 0:
            raise TriggerLimitError(
                f"texts of more than {self.limits.all_text} characters in one run", limit="all_text"
            )

    def host_call(self) -> None:
        """Pay for a question to the host."""
        self._host_calls -= 1
        if self._host_calls < 0:
            raise TriggerLimitError(
                f"more than {self.limits.host_calls} calls of the host in one run", limit="host_calls"
            )

    def wait(self, seconds: float) -> None:
        """Do not count time that the host took."""
        self._deadline += seconds
        self.waited += seconds

    def count(self, name: str, number: int, most: int) -> None:
        """Refuse more things of a kind than allowed."""
        if number > most:
            raise TriggerLimitError(f"more than {most} {name}", limit=name)
