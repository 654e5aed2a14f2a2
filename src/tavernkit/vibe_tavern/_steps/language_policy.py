"""Third step: inserts the language policy near the end of the prompt, without splitting a tool round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from tavernkit._dataclass import dataclass
from tavernkit._text import language_tag
from tavernkit._text.coerce import boolean, trim_blanks
from tavernkit._text.traced import added
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block
from tavernkit.prompt._pipeline import Step
from tavernkit.vibe_tavern._context import VibeTavernState
from tavernkit.vibe_tavern._options import OptionReader, is_blank, names
from tavernkit.vibe_tavern._section_options import LanguagePolicyOptions

PolicyTextBuilder: TypeAlias = Callable[[str, str | None, Sequence[str]], str]
"""Gets the language, the style hint and the special tags; returns the text, or a blank text for none."""

SUPPORTED_LANGUAGES: Final = ("en-US", "zh-CN", "zh-TW", "ko-KR", "ja-JP", "yue-HK")

_ALIASES = {
    **dict.fromkeys(("en", "en-us"), "en-US"),
    **dict.fromkeys(("zh-cn", "zh-hans", "zh-hans-cn"), "zh-CN"),
    **dict.fromkeys(("zh-tw", "zh-hant", "zh-hant-tw"), "zh-TW"),
    **dict.fromkeys(("ko", "ko-kr"), "ko-KR"),
    **dict.fromkeys(("ja", "ja-jp"), "ja-JP"),
    **dict.fromkeys(("yue", "yue-hk"), "yue-HK"),
}


_UNTOUCHED = (
    "* Leave untouched, character for character: fenced and inline code, {{ }} and {% %} template syntax, <tags>, "
    "web addresses and Markdown links."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePolicyConfig:
    """Which language to ask for, and how; also the options of the step of the same name.

    ``supported_languages`` is the application's policy: a language outside it switches the policy off, with a
    warning.
    """

    enabled: bool = False
    target_lang: str | None = None
    style_hint: str | None = None
    special_tags: Sequence[str] = ()
    supported_languages: Sequence[str] = SUPPORTED_LANGUAGES
    policy_text_builder: PolicyTextBuilder | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "enabled", boolean(self.enabled, default=False))
        for name in ("target_lang", "style_hint"):
            value: object = getattr(self, name)
            set_field(self, name, None if is_blank(value) else trim_blanks(str(value)))
        set_field(self, "special_tags", tuple(dict.fromkeys(names(self.special_tags) or ())))
        supported = names(self.supported_languages) or SUPPORTED_LANGUAGES
        set_field(self, "supported_languages", tuple(canonical_language(each) for each in supported))
        if self.policy_text_builder is not None and not callable(self.policy_text_builder):
            raise ConfigError("policy_text_builder must be callable", code="POLICY_TEXT_BUILDER")

    @classmethod
    def from_mapping(cls, value: object) -> LanguagePolicyConfig:
        """Read a context's ``language_policy``."""
        options = OptionReader(value, "language_policy", LanguagePolicyOptions)
        return cls(
            enabled=options.flag("enabled", default=False),
            target_lang=options.text("target_lang"),
            style_hint=options.text("style_hint"),
            special_tags=options.names("special_tags"),
            supported_languages=options.names("supported_languages"),
            policy_text_builder=cast("PolicyTextBuilder | None", options.get("policy_text_builder")),
        )


def canonical_language(value: str) -> str:
    """Normalise a language for policies: ``zh_hans`` is ``zh-CN``, ``ja`` is ``ja-JP``."""
    text = trim_blanks(value).replace("_", "-")
    normal = language_tag.normalize(text) or text
    return _ALIASES.get(normal.lower(), normal)


def policy_text(language: str, style_hint: str | None = None, special_tags: Sequence[str] = ()) -> str:
    """Write the default instruction."""
    tone = f" Tone: {style_hint}." if style_hint else ""
    lines = [
        "[Output language]",
        f"* Write everything the reader sees in {language}, the way a native speaker would.{tone}",
        _UNTOUCHED,
        "* Never translate tool names, directive types or JSON keys; where JSON is asked for, give JSON only.",
        "* When you call a tool, send the call alone, without prose.",
    ]
    if special_tags:
        lines.append(f"* Keep the inside of these tags as it is: {', '.join(special_tags)}.")
    if "lang" in special_tags:
        lines.append(
            '* For a passage in another language wrap it as <lang code="...">...</lang>: '
            f"that language inside, {language} outside."
        )
    return "\n".join(lines)


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
