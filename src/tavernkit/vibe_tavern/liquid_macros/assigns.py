"""The variables that templates see."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.cards.character import Character
from tavernkit.cards.participant import Participant
from tavernkit.values import EMPTY_OBJECT, thaw_object
from tavernkit.vibe_tavern.whitespace import is_blank

CARD_FIELDS = ("description", "personality", "scenario", "system_prompt", "post_history_instructions")
CONTEXT_FIELDS = ("chat_index", "message_index", "model", "role")


def build_assigns(
    character: Participant | None = None,
    user: Participant | None = None,
    context: Mapping[str, object] = EMPTY_OBJECT,
) -> dict[str, object]:
    """Collect what a template may use; blank texts are nothing. The chat's history is not among it."""
    card = character if isinstance(character, Character) else None
    name = character.name if character is not None and card is None else card.display_name if card else None
    assigns: dict[str, object] = {"char": name, "user": user.name if user else None}
    assigns |= {field: getattr(card, field, None) for field in CARD_FIELDS}
    assigns |= {"persona": user.persona_text if user else None, "mes_examples": card.mes_example if card else None}
    assigns = {key: None if is_blank(value) else value for key, value in assigns.items()}
    assigns |= {field: context.get(field) for field in CONTEXT_FIELDS}
    assigns["context"] = thaw_object(context)
    return assigns
