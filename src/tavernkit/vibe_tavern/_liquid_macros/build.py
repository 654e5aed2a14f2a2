"""Renders a template with the data of a build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit._values import EMPTY_OBJECT, thaw_object
from tavernkit.cards._character import Character, Participant
from tavernkit.vibe_tavern._liquid_macros.render import OnError, render_liquid
from tavernkit.vibe_tavern._options import is_blank

if TYPE_CHECKING:
    from tavernkit.vibe_tavern._context import VibeTavernState


CARD_FIELDS = ("description", "personality", "scenario", "system_prompt", "post_history_instructions")
CONTEXT_FIELDS = ("chat_index", "message_index", "model", "role")


def build_assigns(
    character: Participant | None = None,
    user: Participant | None = None,
    context: Mapping[str, object] = EMPTY_OBJECT,
) -> dict[str, object]:
    """Collect the variables of a template; blank texts become None. The chat's history is not included."""
    card = character if isinstance(character, Character) else None
    name = character.name if character is not None and card is None else card.display_name if card else None
    assigns: dict[str, object] = {"char": name, "user": user.name if user else None}
    assigns |= {field: getattr(card, field, None) for field in CARD_FIELDS}
    assigns |= {"persona": user.persona_text if user else None, "mes_examples": card.mes_example if card else None}
    assigns = {key: None if is_blank(value) else value for key, value in assigns.items()}
    assigns |= {field: context.get(field) for field in CONTEXT_FIELDS}
    assigns["context"] = thaw_object(context)
    return assigns


def render_for(
    state: VibeTavernState,
    text: str,
    *,
    assigns: Mapping[str, object] | None = None,
    strict: bool | None = None,
    on_error: OnError = "passthrough",
) -> str:
    """Render a template with the card, the user, the context, the variables, the clock and the strictness of a build.

    ``assigns`` are added to the usual variables and override them. Dice and ``pick`` use the context's ``rng_word``, or
    else its seed.
    """
    context = state.context
    seed = {} if context.seed is None else {"rng_word": str(context.seed)}
    return render_liquid(
        text,
        assigns={**build_assigns(context.character, context.user, context.data), **(assigns or {})},
        variables=state.variables,
        context={**seed, **context.data},
        strict=context.strict if strict is None else strict,
        on_error=on_error,
        now_ms=lambda: int(context.clock().timestamp() * 1000),
        warn=state.warn,
    )
