"""What budgeting needs to know of a preset."""

from __future__ import annotations

from typing import Protocol


class PresetBudget(Protocol):
    """A preset that says how much room there is. Every platform's preset is one."""

    @property
    def context_window_tokens(self) -> int:
        """What the model takes in all."""
        ...

    @property
    def reserved_response_tokens(self) -> int:
        """What is kept free for the reply."""
        ...

    @property
    def max_prompt_tokens(self) -> int:
        """What is left for the prompt: see ``max_prompt_tokens()``."""
        ...


def max_prompt_tokens(context_window_tokens: int | None, reserved_response_tokens: int | None) -> int:
    """Return the room for the prompt: the difference, below zero when the reply alone is too big.

    Args:
        context_window_tokens: The model's context size; None counts as 0.
        reserved_response_tokens: Tokens kept for the reply; None counts as 0.
    """
    return (context_window_tokens or 0) - (reserved_response_tokens or 0)
