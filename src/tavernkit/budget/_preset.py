"""The token budget of a preset."""

from __future__ import annotations

from typing import Protocol


class PresetBudget(Protocol):
    """A preset with a token budget. Every platform's preset has one."""

    @property
    def context_window_tokens(self) -> int:
        """The model's context size."""
        ...

    @property
    def reserved_response_tokens(self) -> int:
        """Tokens reserved for the reply."""
        ...

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens left for the prompt; see ``max_prompt_tokens()``."""
        ...


def max_prompt_tokens(context_window_tokens: int | None, reserved_response_tokens: int | None) -> int:
    """Return the tokens left for the prompt: the difference, negative if the reply alone is too large.

    Args:
        context_window_tokens: The model's context size; None counts as 0.
        reserved_response_tokens: Tokens kept for the reply; None counts as 0.
    """
    return (context_window_tokens or 0) - (reserved_response_tokens or 0)
