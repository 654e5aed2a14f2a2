"""The steps of a VibeTavern build: prepare, plan assembly, language policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import boolean, language_tag, trim_blanks
from tavernkit._text.traced import added, join
from tavernkit._values import FrozenObject, freeze_object, is_mapping
from tavernkit.budget._estimator import TokenEstimator
from tavernkit.cards._character import Character
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block, Message
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.prompt._plan import Plan
from tavernkit.vibe_tavern._context import DEFAULT, Template, VibeTavernState
from tavernkit.vibe_tavern._liquid_macros.render import render_for
from tavernkit.vibe_tavern._options import LanguagePolicyOptions, OptionReader, TokenEstimationOptions, is_blank, names
from tavernkit.vibe_tavern._token_estimation import canonical_model_hint, estimator


class Prepare(Step[VibeTavernState, NoConfig]):
    """Reads ``context["token_estimation"]``; sets the state's model hint and estimator unless given."""

    name = "prepare"

    def before(self, state: VibeTavernState) -> None:
        """Set both, and make sure there is a variables store."""
        _ = state.variables
        if state.context.injections:
            state.warn("VibeTavern leaves injections out: put their texts into a template or into the history")
        options = OptionReader(state.context.get("token_estimation"), "token_estimation", TokenEstimationOptions)
        if is_blank(state.model_hint):
            self._choose_hint(state, options)
        if state.token_estimator is None:
            self._choose_estimator(state, options)

    def _choose_hint(self, state: VibeTavernState, options: OptionReader) -> None:
        for hint, source in ((options.get("model_hint"), "context"), (state.context.default_model_hint, "default")):
            if not is_blank(hint):
                state.model_hint = canonical_model_hint(str(hint))
                state.model_hint_source = source
                return

    def _choose_estimator(self, state: VibeTavernState, options: OptionReader) -> None:
        given, registry = options.get("token_estimator"), options.get("registry")
        if given is not None:
            if not callable(getattr(given, "estimate", None)):
                raise ConfigError("token_estimation.token_estimator needs a method estimate(text, model_hint)")
            state.token_estimator = given  # pyright: ignore[reportAttributeAccessIssue]  # it estimates, as checked
            state.token_estimator_source = "context"
        elif registry is not None:
            if not is_mapping(registry):
                raise ConfigError("token_estimation.registry must map models to tokenizer entries")
            state.token_estimator = TokenEstimator(registry=registry)
            state.token_estimator_source = "context_registry"
        else:
            state.token_estimator = estimator()
            state.token_estimator_source = "default"


SystemTextBuilder: TypeAlias = Callable[[VibeTavernState], str]

STAGE = "plan_assembly"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAssemblyConfig:
    """Options: the function that writes the system text if there is no template."""

    default_system_text_builder: SystemTextBuilder | None = None

    def __post_init__(self) -> None:
        if self.default_system_text_builder is not None and not callable(self.default_system_text_builder):
            raise ConfigError("default_system_text_builder must be callable with the state")


class PlanAssembly(Step[VibeTavernState, PlanAssemblyConfig]):
    """Blocks: system texts, history, post-history text, user message. Card fields are never rendered as templates."""

    name = STAGE
    Config = PlanAssemblyConfig

    def before(self, state: VibeTavernState) -> None:
        """Make the plan."""
        blocks = [
            *self._system(state),
            *_system_block(state.context.system_text, "system", "system_text"),
            *(_history_block(message) for message in state.context.history),
            *self._post_history(state),
            *_user_message(state),
        ]
        state.blocks = blocks
        count = state.token_estimator.estimate if state.token_estimator else None
        hint = state.model_hint
        state.plan = Plan(
            blocks=blocks,
            llm_options=state.llm_options,  # pyright: ignore[reportArgumentType]  # frozen by the plan
            count_tokens=None if count is None else lambda text: count(text, hint),
        )
        state.stat("plan_blocks", len(blocks))

    def _system(self, state: VibeTavernState) -> list[Block]:
        template = state.context.system_template
        if template is not DEFAULT:  # also None and blank templates: there is no system text then
            return _system_block(_render(template, state), "system", "system_template")
        if state.context.character is None and state.context.user is None:
            return []
        return _system_block(self._default_text(state), "system", "default_system")

    def _default_text(self, state: VibeTavernState) -> str:
        builder = self.config.default_system_text_builder
        if builder is not None:
            try:
                return str(builder(state))
            except Exception as error:  # noqa: BLE001  # the application's code: the built-in text takes its place
                state.warn(f"default_system_text_builder failed ({type(error).__name__}: {error}): built-in text used")
        return default_system_text(state)

    def _post_history(self, state: VibeTavernState) -> list[Block]:
        template = state.context.post_history_template
        if template is not DEFAULT:
            return _system_block(_render(template, state), "post_history_instructions", "post_history_template")
        card = state.context.character
        text = card.post_history_instructions if isinstance(card, Character) else ""
        return _system_block(text, "post_history_instructions", "post_history_instructions")


def default_system_text(state: VibeTavernState) -> str:
    """Write the built-in system text: the card's fields and the user's persona."""
    character, user = state.context.character, state.context.user
    parts: list[str] = []
    if isinstance(character, Character):
        parts += [
            character.system_prompt,
            _identity(character.display_name),
            character.description,
            character.personality,
            _with_heading("Scenario", character.scenario),
        ]
    elif character is not None:
        parts += [_identity(character.name), character.persona_text]
    if user is not None:
        parts.append(_with_heading("User persona", user.persona_text))
    return join("\n\n", [part for part in parts if not is_blank(part)])


def _identity(name: str) -> str:
    return "" if is_blank(name) else join("", (added("You are ", STAGE), name, added(".", STAGE)))


def _with_heading(heading: str, text: str) -> str:
    return "" if is_blank(text) else added(f"{heading}:\n", STAGE) + text


def _render(template: Template, state: VibeTavernState) -> str:
    if not isinstance(template, str) or is_blank(template):
        return ""
    return render_for(state, template)


def _system_block(text: str, slot: str, source: str) -> list[Block]:
    if is_blank(text):
        return []
    return [Block(role="system", content=text, slot=slot, token_budget_group="system", metadata=_SOURCES[source])]


def _history_block(message: Message) -> Block:
    return Block(
        role=message.role,
        content=message.content,
        name=message.name,
        attachments=message.attachments,
        message_metadata=message.metadata,
        slot="history",
        token_budget_group="history",
        metadata=_SOURCES["history"],
    )


def _user_message(state: VibeTavernState) -> list[Block]:
    text = state.context.message
    if is_blank(text):
        return []
    return [
        Block(
            role="user",
            content=text,
            slot="user_message",
            token_budget_group="history",
            metadata=_SOURCES["user_message"],
        )
    ]


_REASONS: Mapping[str, str] = {
    "default_system": "made of the card and the user",
    "system_template": "the template for the system text",
    "system_text": "the system text of the request",
    "history": "the chat so far",
    "post_history_instructions": "the card has some",
    "post_history_template": "the template for after the history",
    "user_message": "what the user says now",
    "language_policy": "the language that is asked for",
}


_SOURCES: Mapping[str, FrozenObject] = {
    name: freeze_object({"source": name, "stage": STAGE, "reason": reason}) for name, reason in _REASONS.items()
}


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
    normal = language_tag(text) or text
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
            metadata={**_SOURCES["language_policy"], "stage": "language_policy", "target_lang": language},
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
