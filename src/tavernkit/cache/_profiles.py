"""What providers cache and what they charge for it, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tavernkit.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheProfile:
    """How a provider caches prompts. Prices are factors: input that is not cached costs 1.

    Providers change their numbers: use ``PROFILES["openai"].replace(read=0.5)`` for your own.
    """

    name: str
    """The provider, or your own name for the profile."""
    minimum: int
    """Tokens of the shortest prefix that is cached."""
    granularity: int = 1
    """The cached part is a multiple of this many tokens."""
    breakpoints: int = 0
    """How many cache marks a request may have; 0 if the provider finds the prefix itself."""
    look_back: int = 0
    """How many content blocks before a mark the provider looks for an earlier entry."""
    lifetime: float | None = None
    """Seconds without a request after which an entry expires; None if it stays until its memory is needed."""
    memory: int = 16
    """How many earlier requests of a conversation may be matched; a local engine's slot has only the last one."""
    read: float = 0.1
    """Price of input that comes from the cache."""
    write: float = 1.0
    """Price of input that is written to the cache."""

    def __post_init__(self) -> None:
        for name in ("minimum", "granularity", "memory"):
            if getattr(self, name) < 1:
                raise ConfigError(f"CacheProfile.{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("breakpoints", "look_back", "read", "write"):
            if getattr(self, name) < 0:
                raise ConfigError(f"CacheProfile.{name} must be 0 or more, not {getattr(self, name)}")

    def replace(self, **changes: object) -> CacheProfile:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def cacheable(self, tokens: int) -> int:
        """Return how many tokens of a common prefix come from an automatic cache."""
        if tokens < self.minimum:
            return 0
        return tokens - tokens % self.granularity

    def cost(self, *, tokens: int, cached: int, written: int) -> float:
        """Return the price of a request's input, in tokens of uncached input.

        Args:
            tokens: All tokens of the prompt.
            cached: Those that come from the cache.
            written: Those that are written to it.
        """
        return cached * self.read + written * self.write + (tokens - cached - written)


_ANTHROPIC: Final = CacheProfile(
    # https://docs.claude.com/en/docs/build-with-claude/prompt-caching: 1,024 tokens on most models, 2,048 or 4,096 on
    # some small ones; 4 marks; 20 blocks; 5 minutes, renewed by every hit ("ttl": "1h" costs 2 for writing).
    name="anthropic",
    minimum=1024,
    breakpoints=4,
    look_back=20,
    lifetime=300,
    read=0.1,
    write=1.25,
)

# Last compared with the providers' documentation in November 2026.
PROFILES: Final[Mapping[str, CacheProfile]] = MappingProxyType(
    {
        # https://platform.openai.com/docs/guides/prompt-caching: automatic from 1,024 tokens in steps of 128; 5 to 10
        # minutes. Newer models charge 0.1 to 0.25 for cached input, older ones 0.5.
        "openai": CacheProfile(name="openai", minimum=1024, granularity=128, lifetime=300, read=0.25),
        "anthropic": _ANTHROPIC,
        # https://ai.google.dev/gemini-api/docs/caching: implicit caching from 1,024 (Flash) or 2,048 tokens (Pro);
        # the granularity is not published.
        "google": CacheProfile(name="google", minimum=2048, lifetime=300, read=0.25),
        # https://api-docs.deepseek.com/guides/kv_cache: on disk, in units of 64 tokens, for hours.
        "deepseek": CacheProfile(name="deepseek", minimum=64, granularity=64, lifetime=3600, read=0.1),
        # https://openrouter.ai/docs/features/prompt-caching: as the provider behind it; Anthropic's marks are passed
        # on, and these are the numbers here.
        "openrouter": _ANTHROPIC.replace(name="openrouter"),
        # https://github.com/ggml-org/llama.cpp/tree/master/tools/server: a slot keeps the tokens of its last request
        # (cache_prompt). Nothing is charged; the price is the time of the prefill.
        "llama_cpp": CacheProfile(name="llama_cpp", minimum=1, memory=1, read=0.0),
        # https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html: whole blocks of 16 tokens.
        "vllm": CacheProfile(name="vllm", minimum=16, granularity=16, read=0.0),
    }
)
"""Profiles by name."""


def find_profile(profile: CacheProfile | str) -> CacheProfile:
    """Return a profile by its name, or the profile itself.

    Raises:
        ConfigError: There is no profile with this name.
    """
    if isinstance(profile, CacheProfile):
        return profile
    found = PROFILES.get(profile)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(profile, PROFILES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROFILES)}"
        raise ConfigError(f"unknown cache profile {profile!r}; {hint}", code="UNKNOWN_CACHE_PROFILE")
    return found


def planned_marks(profile: CacheProfile, *, chosen: bool) -> dict[str, CacheProfile]:
    """Return the marks of a plan that keeps a provider's cache, by dialect; empty if the provider needs none.

    Args:
        profile: The provider.
        chosen: True if the application named the provider. Otherwise it is the preset's, and messages in OpenAI's
            protocol may go to a server that refuses marks.
    """
    dialects = ("anthropic", "openai") if chosen else ("anthropic",)
    return dict.fromkeys(dialects, profile) if profile.breakpoints else {}
