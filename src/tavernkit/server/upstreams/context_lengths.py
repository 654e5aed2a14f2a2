"""The context size of a model: from its server, a table of known models, or a cautious default."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models import ModelError
from tavernkit.server.limits import ASKING_SECONDS, CONTEXT_LENGTH, CONTEXT_LENGTH_SECONDS

logger = logging.getLogger("tavernkit.server")

Call = Callable[[str], Awaitable[Json]]
"""Fetches a path of a server."""

KNOWN: Final[tuple[tuple[str, int], ...]] = (
    ("gpt-3.5*", 16_385),
    ("gpt-4.1*", 1_047_576),
    ("gpt-4-turbo*", 128_000),
    ("gpt-4o*", 128_000),
    ("chatgpt-4o*", 128_000),
    ("gpt-4-32k*", 32_768),
    ("gpt-4*", 8_192),
    ("gpt-5*", 400_000),
    ("o1-mini*", 128_000),
    ("o1-preview*", 128_000),
    ("o1*", 200_000),
    ("o3*", 200_000),
    ("o4*", 200_000),
    ("claude*", 200_000),
    ("gemini-1.0*", 32_768),
    ("gemini*", 1_048_576),
    ("deepseek*", 128_000),
    ("mistral-large*", 128_000),
    ("mistral*", 32_768),
    ("grok-4*", 256_000),
    ("grok*", 131_072),
    ("command-r*", 128_000),
    ("command-a*", 256_000),
)
"""Context sizes by patterns of names without a router's prefix (``openai/…``); the first match counts."""

KNOWN_MODELS: Final = 512
"""How many answers are kept, because every turn asks."""

_FIELDS: Final = (
    "context_length",
    "max_model_len",
    "max_context_length",
    "context_window",
    "n_ctx",
    "loaded_context_length",
)
"""Its names in servers' lists of models: OpenRouter, vLLM, LM Studio, Groq, llama.cpp."""


@lru_cache(KNOWN_MODELS)
def known_length(model: str) -> int | None:
    """Return the context size of a well-known model."""
    name = model.rpartition("/")[2].lower()
    return next((length for pattern, length in KNOWN if fnmatchcase(name, pattern)), None)


class ContextLength:
    """The context size of one upstream; its server is asked from time to time."""

    def __init__(
        self, configured: int | None, call: Call | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make the lookup.

        Args:
            configured: The size in the settings; then the server is not asked.
            call: Asks the server; None if it cannot be asked.
            clock: Returns the time in seconds.
        """
        self._configured = configured
        self._call = call
        self._clock = clock
        self._listed: JsonObject = {}
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def known(self, model: str) -> int | None:
        """Return the size of a model from the settings, the server or the table; None if unknown."""
        if self._configured is not None:
            return self._configured
        if self._call is not None and self._is_old():
            async with self._looking:
                if self._is_old():
                    found = await _lengths(self._call)
                    self._listed = self._listed if found is None else found
                    self._looked_at = self._clock()
        listed = self._listed.get(model, self._listed.get(""))
        return listed if isinstance(listed, int) else known_length(model)

    async def of(self, model: str) -> int:
        """Return the size to use."""
        return await self.known(model) or CONTEXT_LENGTH

    def _is_old(self) -> bool:
        return self._clock() - self._looked_at >= CONTEXT_LENGTH_SECONDS


async def _lengths(call: Call) -> JsonObject | None:
    """Return sizes by model name; the empty name means the only model. None if the server fails."""
    try:
        async with asyncio.timeout(ASKING_SECONDS):
            body = await call("/models")
            listed = body.get("data") if is_object(body) else None
            models = [model for model in listed if is_object(model)] if is_list(listed) else []
            if any(model.get("owned_by") == "llamacpp" for model in models):
                # Its list has the model's training size; the size in use is elsewhere.
                return {"": _number((await _properties(call)).get("n_ctx"))}
    except (ModelError, TimeoutError) as error:
        logger.info("a model's server does not say its context size: %s", error)
        return None
    found: JsonObject = {str(model.get("id")): _length(model) for model in models}
    if len(models) == 1:
        found[""] = _length(models[0])
    return {name: length for name, length in found.items() if length}


async def _properties(call: Call) -> JsonObject:
    body = await call("../props")
    settings = body.get("default_generation_settings") if is_object(body) else None
    return settings if is_object(settings) else {}


def _length(model: JsonObject) -> int | None:
    return next((found for name in _FIELDS if (found := _number(model.get(name)))), None)


def _number(value: Json) -> int | None:
    return value if isinstance(value, int) and value >= 256 else None
