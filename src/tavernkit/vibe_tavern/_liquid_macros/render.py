"""Renders a Liquid template over the chat, or what the user typed before it is saved."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Literal, get_args

from tavernkit._arguments import require_choice
from tavernkit._text.strict_json import byte_length
from tavernkit._text.traced import join, plain
from tavernkit._values import EMPTY_OBJECT, LRUCache, is_mapping, thaw_object
from tavernkit.cards._character import Character, Participant
from tavernkit.errors import ConfigError, Warn
from tavernkit.stores._variables import GLOBAL, LOCAL, VariablesStore
from tavernkit.vibe_tavern._limits import (
    MAX_LIQUID_BYTES,
    MAX_LIQUID_CACHED_CHARACTERS,
    MAX_LIQUID_UNCLOSED,
    MAX_LIQUID_WARNINGS,
)
from tavernkit.vibe_tavern._options import is_blank
from tavernkit.vibe_tavern.errors import LiquidError

if TYPE_CHECKING:
    from liquid import BoundTemplate

    from tavernkit.vibe_tavern._context import VibeTavernState
    from tavernkit.vibe_tavern._liquid_macros.engine import MacroEnvironment


OnError = Literal["passthrough", "raise"]
_ON_ERROR = get_args(OnError)

_SHOWN_CHARACTERS = 60
_PAIRS = tuple(
    (re.compile(opening), re.compile(closing))
    for opening, closing in (
        (r"\{\{", r"\}\}"),
        (r"\{%", r"%\}"),
        *((rf"\{{%-?\s*{name}\b", rf"\{{%-?\s*end{name}\b") for name in ("raw", "comment", "doc")),
    )
)
_ESCAPED_BRACE = re.compile(r"\\([{}])")
_templates: LRUCache[tuple[bool, str], BoundTemplate] = LRUCache(
    MAX_LIQUID_CACHED_CHARACTERS, lambda key, _: len(key[1])
)
TOGGLE = "expand_user_input_macros"


def render_liquid(
    text: str,
    *,
    assigns: Mapping[str, object] = EMPTY_OBJECT,
    variables: VariablesStore | None = None,
    context: Mapping[str, object] = EMPTY_OBJECT,
    strict: bool = False,
    on_error: OnError = "passthrough",
    now_ms: Callable[[], int] | None = None,
    warn: Warn | None = None,
) -> str:
    """Render a Liquid template (extra ``liquid``).

    ``assigns`` are its variables; ``var`` and ``global`` read the store. ``context`` has ``message_index``,
    ``rng_word`` and ``now_ms`` for filters. A template that cannot be parsed or exceeds a limit is returned unchanged;
    other errors are printed where they happen. Both give a warning. ``strict`` and ``on_error="raise"`` raise
    ``LiquidError`` instead.

    Args:
        text: The template.
        assigns: Its variables.
        variables: The store that ``var`` and ``global`` read.
        context: Data for filters.
        strict: Raise on any error.
        on_error: ``passthrough`` or ``raise``.
        now_ms: The clock, in milliseconds.
        warn: Called with each warning.
    """
    require_choice("on_error", on_error, _ON_ERROR)
    raising = strict or on_error == "raise"
    problem: LiquidError
    if byte_length(text) > MAX_LIQUID_BYTES:
        problem = LiquidError(f"the template is larger than {MAX_LIQUID_BYTES} bytes", kind="template_too_large")
    elif _has_unclosed_tags(text):
        problem = LiquidError("tags are opened and never closed", kind="syntax_error")
    else:
        try:
            rendered, printed_errors = _render(
                text, assigns, variables, context, _clock(context, now_ms), raising=raising
            )
            if warn is not None:
                _report(text, printed_errors, warn)
            return _tidy(rendered)
        except LiquidError as error:
            problem = error
    if raising:
        raise problem
    if warn is not None:
        warn(f"the Liquid template {_opening(text)} was left as it is: {problem}")
    return text


def _render(
    text: str,
    assigns: Mapping[str, object],
    variables: VariablesStore | None,
    context: Mapping[str, object],
    now_ms: Callable[[], int],
    *,
    raising: bool,
) -> tuple[str, Collection[str]]:
    """Render, and return which errors were printed."""
    environment = _environment(raising=raising)
    from liquid.exceptions import LiquidError as EngineError

    from tavernkit.vibe_tavern._liquid_macros.engine import (
        MacroContext,
        Run,
        TracedOutput,
        VariablesDrop,
        error_detail,
        output_buffer,
        render_template,
    )

    # A variable of the template called "var" or "global" hides the store.
    scope = {"var": VariablesDrop(variables, LOCAL), "global": VariablesDrop(variables, GLOBAL), **assigns}
    buffer = output_buffer() if type(text) is str else TracedOutput(text)
    written = plain(text)
    try:
        template = _templates.get((raising, written))
        if template is None:
            template = environment.from_string(written)
            _templates.put((raising, written), template)
        run = MacroContext(template, globals=scope)
        run.run = Run(variables, context, now_ms)
        render_template(template, run, buffer)
    except (EngineError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise LiquidError(error_detail(error), kind=_kind(error)) from error
    return buffer.getvalue(), run.printed_errors


def _report(text: str, printed_errors: Collection[str], warn: Warn) -> None:
    for each in islice(printed_errors, MAX_LIQUID_WARNINGS):
        warn(f"the Liquid template {_opening(text)} printed an error, {each}")
    more = len(printed_errors) - MAX_LIQUID_WARNINGS
    if more > 0:
        warn(f"the Liquid template {_opening(text)} printed {more} other errors")


def _opening(text: str) -> str:
    """Return the beginning of a template, for messages."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


@cache
def _environment(*, raising: bool) -> MacroEnvironment:
    try:
        from tavernkit.vibe_tavern._liquid_macros.engine import MacroEnvironment
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Liquid templates need the extra: pip install 'tavernkit[liquid]'", code="EXTRA_MISSING"
        ) from error
    return MacroEnvironment(raising=raising)


def _kind(error: Exception) -> str:
    from liquid import exceptions

    from tavernkit.vibe_tavern._liquid_macros.engine import UndefinedDropMethodError
    from tavernkit.vibe_tavern._liquid_macros.filters import DivisionByZeroError

    kinds: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
        (exceptions.ResourceLimitError, "memory_error"),
        (UndefinedDropMethodError, "undefined_drop_method"),
        (exceptions.UndefinedError, "undefined_variable"),
        (exceptions.UnknownFilterError, "undefined_filter"),
        (exceptions.LiquidSyntaxError, "syntax_error"),
        ((DivisionByZeroError, ZeroDivisionError), "zero_division"),
        (exceptions.FilterArgumentError, "argument_error"),
    )
    return next((kind for classes, kind in kinds if isinstance(error, classes)), "render_error")


def _has_unclosed_tags(text: str) -> bool:
    """Return True if many tags are never closed: the engine would search the whole text for the end of each."""
    for opening, closing in _PAIRS:
        end = -1
        for match in closing.finditer(text):
            end = match.end()
        opened = islice(opening.finditer(text, max(end, 0)), MAX_LIQUID_UNCLOSED + 1)
        if sum(1 for _ in opened) > MAX_LIQUID_UNCLOSED:
            return True
    return False


def _clock(context: Mapping[str, object], now_ms: Callable[[], int] | None) -> Callable[[], int]:
    fixed = context.get("now_ms")
    if isinstance(fixed, (int, float)) and not isinstance(fixed, bool):
        return lambda: int(fixed)
    return now_ms or (lambda: time.time_ns() // 1_000_000)


def _tidy(text: str) -> str:
    """Remove the backslash from escaped braces, and white space from blank lines."""
    # Each match is a backslash and what it escapes.
    ends = [0, *(match.start() + 1 for match in _ESCAPED_BRACE.finditer(text)), len(text) + 1]
    text = join("", [text[start : end - 1] for start, end in pairwise(ends)])
    if "\n" not in text:  # a blank text of one line stays
        return text
    return join("\n", ["" if not line.strip(" \t") else line for line in text.split("\n")])


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

    The build's ``macro_vars`` are variables of the template too. ``assigns`` are added to all of these and override
    them. Dice and ``pick`` use the context's ``rng_word``, or else its seed.
    """
    context = state.context
    seed = {} if context.seed is None else {"rng_word": str(context.seed)}
    return render_liquid(
        text,
        assigns={
            **build_assigns(context.character, context.user, context.data),
            **context.macro_vars,
            **(assigns or {}),
        },
        variables=state.variables,
        context={**seed, **context.data},
        strict=context.strict if strict is None else strict,
        on_error=on_error,
        now_ms=lambda: int(context.clock().timestamp() * 1000),
        warn=state.warn,
    )
