"""Third step: inserts the language policy near the end of the prompt, without splitting a tool round."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.traced import added
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block
from tavernkit.prompt._pipeline import Step
from tavernkit.vibe_tavern._context import VibeTavernState
from tavernkit.vibe_tavern._language_policy import LanguagePolicyConfig, canonical_language, policy_text
from tavernkit.vibe_tavern._options import is_blank


class LanguagePolicy(Step[VibeTavernState, LanguagePolicyConfig]):
    """Adds one system block that names the output language."""

    name = "language_policy"
    Config = LanguagePolicyConfig

    def before(self, state: VibeTavernState) -> None:
        """Add the block to the plan."""
        config = self.config
        if not config.enabled or state.plan is None:
            return
        if config.target_lang is None:
            raise ConfigError("language_policy needs target_lang, such as 'ja-JP'", code="TARGET_LANG_REQUIRED")
        language = canonical_language(config.target_lang)
        if language not in config.supported_languages:
            state.warn(
                f"language_policy: {language} is not among {', '.join(config.supported_languages)}: no policy applied"
            )
            return
        write = config.policy_text_builder or policy_text
        text = write(language, config.style_hint, config.special_tags)
        if is_blank(text):
            return
        block = Block(
            role="system",
            content=added(text, "language_policy"),
            slot="language_policy",
            token_budget_group="system",
            metadata={"source": "language_policy", "target_lang": language},
        )
        blocks = list(state.plan.blocks)
        blocks.insert(insertion_index(blocks), block)
        state.blocks = blocks
        state.plan = state.plan.with_blocks(blocks)
        state.stat("enabled", True)


def insertion_index(blocks: Sequence[Block]) -> int:
    """Return the position: before the user's message, else before the trailing run of user and tool messages.

    A run that starts with tool results belongs to the assistant message that made the calls: the position is before
    that message, because providers refuse anything between the two.
    """
    for index, block in enumerate(blocks):
        if block.slot == "user_message":
            return index
    index = len(blocks)
    while index and blocks[index - 1].role in ("user", "tool"):
        index -= 1
    if index < len(blocks) and blocks[index].role == "tool":
        while index and blocks[index - 1].role == "assistant" and _calls_tools(blocks[index - 1]):
            index -= 1
    return index


def _calls_tools(block: Block) -> bool:
    return bool((block.message_metadata or {}).get("tool_calls"))
