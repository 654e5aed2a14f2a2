"""Expands macros in what the user typed, before it is saved; off by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tavernkit._values import EMPTY_OBJECT, is_mapping
from tavernkit.errors import Warn
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern._liquid_macros.render import OnError, render_liquid

TOGGLE = "expand_user_input_macros"


def preprocess_user_input(
    text: str,
    *,
    variables: VariablesStore | None,
    assigns: Mapping[str, object] = EMPTY_OBJECT,
    context: Mapping[str, object] = EMPTY_OBJECT,
    enabled: bool | None = None,
    strict: bool = False,
    on_error: OnError = "passthrough",
    now_ms: Callable[[], int] | None = None,
    warn: Warn | None = None,
) -> str:
    """Render user input as a template if enabled, by argument or by ``context.toggles.expand_user_input_macros``.

    If enabled, a user's text can change the chat's variables.

    Args:
        text: What the user typed.
        variables: The chat's variables.
        assigns: Variables of the template.
        context: The toggle, and data for filters.
        enabled: Whether to render; None uses the toggle.
        strict: Raise on any error.
        on_error: ``passthrough`` or ``raise``.
        now_ms: The clock, in milliseconds.
        warn: Called with each warning.
    """
    if enabled is None:
        toggles = context.get("toggles")
        enabled = is_mapping(toggles) and toggles.get(TOGGLE) is True
    if not enabled:
        return text
    return render_liquid(
        text,
        assigns=assigns,
        variables=variables,
        context=context,
        strict=strict,
        on_error=on_error,
        now_ms=now_ms,
        warn=warn,
    )
