"""Renders a template with everything that a build knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit.vibe_tavern.liquid_macros.assigns import build_assigns
from tavernkit.vibe_tavern.liquid_macros.render import OnError, render_liquid

if TYPE_CHECKING:
    from tavernkit.vibe_tavern.context import VibeTavernState


def render_for(
    state: VibeTavernState,
    text: str,
    *,
    assigns: Mapping[str, object] | None = None,
    strict: bool | None = None,
    on_error: OnError = "passthrough",
) -> str:
    """Render a template with the card, the user, the context, the variables, the clock and the strictness of a build.

    ``assigns`` are added to the usual variables and win over them. Dice and ``pick`` use the context's ``rng_word``, or
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
