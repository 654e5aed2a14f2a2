"""Second step: makes the blocks of the prompt, in order, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added, join
from tavernkit._values import JsonObject
from tavernkit.cards._character import Character
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block
from tavernkit.prompt._message import Message
from tavernkit.prompt._pipeline import Step
from tavernkit.prompt._plan import Plan
from tavernkit.vibe_tavern._context import DEFAULT, Template, VibeTavernState
from tavernkit.vibe_tavern._liquid_macros.render import render_for
from tavernkit.vibe_tavern._options import is_blank

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
        if template is not DEFAULT:
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
    return [Block(role="system", content=text, slot=slot, token_budget_group="system", metadata=_source(source))]


def _history_block(message: Message) -> Block:
    return Block(
        role=message.role,
        content=message.content,
        name=message.name,
        attachments=message.attachments,
        message_metadata=message.metadata,
        slot="history",
        token_budget_group="history",
        metadata=_source("history"),
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
            metadata=_source("user_message"),
        )
    ]


def _source(name: str) -> JsonObject:
    return {"source": name, "stage": STAGE}
