"""The server's rules about models, as tables: a new model is a new line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto

# Old completion models, which get a text instead of messages.
TEXT_MODELS = frozenset({
    "gpt-3.5-turbo-instruct",
    "gpt-3.5-turbo-instruct-0914",
    "text-davinci-003",
    "text-davinci-002",
    "text-davinci-001",
    "text-curie-001",
    "text-babbage-001",
    "text-ada-001",
    "code-davinci-002",
    "code-davinci-001",
    "code-cushman-002",
    "code-cushman-001",
    "text-davinci-edit-001",
    "code-davinci-edit-001",
    "text-embedding-ada-002",
    "text-similarity-davinci-001",
    "text-similarity-curie-001",
    "text-similarity-babbage-001",
    "text-similarity-ada-001",
    "text-search-davinci-doc-001",
    "text-search-curie-doc-001",
    "text-search-babbage-doc-001",
    "text-search-ada-doc-001",
    "code-search-babbage-code-001",
    "code-search-ada-code-001",
})  # fmt: skip

# OpenAI's models that take `reasoning_effort`, and the only value of those that have one.
EFFORT_MODELS: Mapping[str, str | None] = {
    "o1": None,
    "o3-mini": None,
    "o3-mini-2025-01-31": None,
    "o4-mini": None,
    "o4-mini-2025-04-16": None,
    "o3": None,
    "o3-2025-04-16": None,
    "gpt-5": None,
    "gpt-5-2025-08-07": None,
    "gpt-5-mini": None,
    "gpt-5-mini-2025-08-07": None,
    "gpt-5-nano": None,
    "gpt-5-nano-2025-08-07": None,
    "gpt-5.1": None,
    "gpt-5.1-2025-11-13": None,
    "gpt-5.1-chat-latest": None,
    "gpt-5.2": None,
    "gpt-5.2-2025-12-11": None,
    "gpt-5.2-chat-latest": None,
    "gpt-5.3-chat-latest": "medium",
    "gpt-5.4": None,
    "gpt-5.4-2026-03-05": None,
    "gpt-5.4-mini": None,
    "gpt-5.4-mini-2026-03-17": None,
    "gpt-5.4-nano": None,
    "gpt-5.4-nano-2026-03-17": None,
    "gpt-5.5": None,
    "gpt-5.5-2026-04-23": None,
    "gpt-5.6": None,
    "gpt-5.6-sol": None,
    "gpt-5.6-terra": None,
    "gpt-5.6-luna": None,
    "gpt-6-astra": None,
}
VERBOSITY_MODELS = ("gpt-5", "gpt-6-astra")
"""Prefixes of OpenAI's models that accept ``verbosity``."""


class Claude(Enum):
    """Special properties of a Claude model."""

    THINKS = auto()
    SEARCHES = auto()
    ONE_SAMPLER = auto()
    """Accepts either ``temperature`` or ``top_p``."""
    NO_SAMPLING = auto()
    """Accepts no samplers, and decides itself how much to think."""
    EFFORT = auto()
    """Accepts a verbosity as ``output_config.effort``."""
    NO_PREFILL = auto()
    ADAPTIVE_IF_ALLOWED = auto()
    """Decides itself how much to think, if the server's settings allow it."""
    SUMMARIZES = auto()
    """Shows a summary of its thoughts even if no effort is chosen."""
    SCHEMA_FORMAT = auto()
    """Accepts a JSON schema as the format of its answer; others get it as a tool."""


_FOUR_SIX = (Claude.ONE_SAMPLER, Claude.EFFORT, Claude.NO_PREFILL, Claude.ADAPTIVE_IF_ALLOWED)
_FIVE = (
    Claude.THINKS,
    Claude.SEARCHES,
    Claude.NO_SAMPLING,
    Claude.EFFORT,
    Claude.NO_PREFILL,
    Claude.SUMMARIZES,
)
# Patterns are searched in the name; all matching lines apply.
CLAUDE_MODELS: tuple[tuple[str, Iterable[Claude]], ...] = (
    (r"^claude-3-5", (Claude.SEARCHES,)),
    (r"^claude-3-7", (Claude.THINKS, Claude.SEARCHES)),
    (r"^claude-opus-4", (Claude.THINKS, Claude.SEARCHES)),
    (r"^claude-sonnet-4", (Claude.THINKS, Claude.SEARCHES)),
    (r"^claude-haiku-4-5", (Claude.THINKS, Claude.SEARCHES, Claude.ONE_SAMPLER)),
    (r"^claude-opus-4-1", (Claude.ONE_SAMPLER,)),
    (r"^claude-sonnet-4-5", (Claude.ONE_SAMPLER,)),
    (r"^claude-opus-4-5", (Claude.ONE_SAMPLER, Claude.EFFORT)),
    (r"^claude-opus-4-6", _FOUR_SIX),
    (r"^claude-sonnet-4-6", _FOUR_SIX),
    (r"^claude-opus-4-7", (Claude.NO_SAMPLING, Claude.EFFORT, Claude.NO_PREFILL)),
    (r"^claude-opus-4-8", (Claude.NO_SAMPLING, Claude.EFFORT, Claude.NO_PREFILL)),
    (r"claude-opus-5", _FIVE),
    (r"claude-sonnet-5", _FIVE),
    (r"claude-fable", _FIVE),
    (r"claude-fable-5-1", (Claude.SCHEMA_FORMAT,)),
)


class Google(Enum):
    """Special properties of a Google model."""

    GEMMA = auto()
    """Accepts neither a system prompt nor tools."""
    NO_SEARCH = auto()
    NO_SAMPLING = auto()
    THINKS = auto()
    DRAWS = auto()
    IMAGE_SIZE = auto()
    """Accepts the size of a picture, not only its aspect ratio."""


GOOGLE_MODELS: tuple[tuple[str, Iterable[Google]], ...] = (
    (r"gemma-3", (Google.GEMMA,)),
    (r"learnlm", (Google.NO_SEARCH,)),
    (r"^gemini-2\.0-flash-lite$", (Google.NO_SEARCH,)),
    (r"^gemini-2\.0-flash-lite-001$", (Google.NO_SEARCH,)),
    (r"^gemini-2\.0-flash-lite-preview-02-05$", (Google.NO_SEARCH,)),
    (r"^gemini-robotics-er-1\.5-preview$", (Google.NO_SEARCH,)),
    (r"gemini-3\.6-flash", (Google.NO_SAMPLING,)),
    (r"gemini-3\.7-flash", (Google.NO_SAMPLING,)),
    (r"gemini-3\.5-flash-lite", (Google.NO_SAMPLING,)),
    (r"^gemini-2\.0-flash-exp$", (Google.DRAWS,)),
    (r"^gemini-2\.0-flash-exp-image-generation$", (Google.DRAWS,)),
    (r"^gemini-2\.0-flash-preview-image-generation$", (Google.DRAWS,)),
    (r"^gemini-2\.5-flash-image-preview$", (Google.DRAWS,)),
    (r"^gemini-2\.5-flash-image$", (Google.DRAWS,)),
    (r"^gemini-3-pro-image$", (Google.DRAWS,)),
    (r"^gemini-3\.1-flash-image$", (Google.DRAWS,)),
    (r"^gemini-3", (Google.IMAGE_SIZE,)),
    # The dot of 2.5 matches any character, as in SillyTavern's own pattern.
    (r"^gemini-2.5-(flash|pro)(?!.*-image(-preview)?$)", (Google.THINKS,)),
    (r"^gemini-3[\d.]*-(flash|pro)", (Google.THINKS,)),
)

COHERE_WITHOUT_SAFETY = "08-2024"
"""Cohere's models whose names end like this get their safety mode switched off."""
MINIMAX_MAX_TOKENS: Mapping[str, int] = {"M2-her": 2048}
"""MiniMax's models that allow no more tokens."""


def claude_traits(model: str) -> frozenset[Claude]:
    """Return the special properties of a Claude model."""
    return frozenset(trait for pattern, traits in CLAUDE_MODELS if re.search(pattern, model) for trait in traits)


def google_traits(model: str) -> frozenset[Google]:
    """Return the special properties of a Google model."""
    return frozenset(trait for pattern, traits in GOOGLE_MODELS if re.search(pattern, model) for trait in traits)


def openai_effort(model: str, effort: str) -> str | None:
    """Return the ``reasoning_effort`` of an OpenAI model; None if it accepts none."""
    if model not in EFFORT_MODELS:
        return None
    return EFFORT_MODELS[model] or ("minimal" if effort == "min" else effort) or None
