"""The server settings that converters look at."""

from __future__ import annotations

from dataclasses import dataclass

PROMPT_PLACEHOLDER = "[Start a new chat]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterConfig:
    """Settings of SillyTavern's ``config.yaml``; the defaults are those of the shipped file."""

    prompt_placeholder: str = PROMPT_PLACEHOLDER
    gemini_api_version: str = "v1beta"
    gemini_thought_signatures: bool = True
    mistral_enable_prefix: bool = False
    claude_enable_system_prompt_cache: bool = False
    claude_caching_at_depth: int = -1
    claude_extended_ttl: bool = False
    claude_enable_adaptive_thinking: bool = True

    @property
    def cache_ttl(self) -> str:
        """How long a cache entry lives."""
        return "1h" if self.claude_extended_ttl else "5m"


DEFAULT_CONFIG = ConverterConfig()
