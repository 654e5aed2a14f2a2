"""Macros and CBS in a text: unknown names, wrong arguments, unclosed blocks; and the time that a file may take."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Literal

from tavernkit.budget import default_estimator
from tavernkit.cache._volatile import volatile_macros
from tavernkit.cards._requirements import Severity
from tavernkit.lint._finding import Finding, line_and_column

if TYPE_CHECKING:
    from tavernkit.risu_ai._cbs import CBSEngine
    from tavernkit.silly_tavern._macros import Diagnostic, MacroEngine


Language = Literal["silly_tavern", "risu_ai", "any"]
"""The program whose macros a text uses; ``any`` for files that both programs read."""

MAX_TEXT = 200_000
"""Longer texts are checked up to here."""

_CBS_BLOCK = re.compile(r"\{\{\s*[#:]")
_DELIBERATE = frozenset({"slot", "outlet", "0"})
"""Names that mean something only where the text is used."""

_SEVERITIES = {
    "syntax": Severity.WARNING,
    "unknown_macro": Severity.WARNING,
    "block": Severity.ERROR,
    "limit": Severity.ERROR,
    "internal_error": Severity.WARNING,
    "runtime_warning": Severity.WARNING,
}


def lint_text(text: str, where: str, language: Language = "any") -> Iterator[Finding]:
    """Check a text by expanding it; side effects are discarded.

    Args:
        text: The text with macros.
        where: The JSON pointer to it, for findings.
        language: The program whose macros it uses; ``any`` decides by the text.
    """
    if "{{" not in text or not has_time():
        return
    if len(text) > MAX_TEXT:
        message = f"is long: only the first {MAX_TEXT} characters are checked"
        yield Finding(where=where, message=message, severity=Severity.INFO, code="LONG_TEXT")
        text = text[:MAX_TEXT]
    if language == "risu_ai" or (language == "any" and _CBS_BLOCK.search(text)):
        yield from _cbs(text, where)
        return
    from tavernkit.silly_tavern._macros import MacroEnvironment, Overrides

    environment = MacroEnvironment(character_name="Character")
    for each in _macro_engine().evaluate(text, environment, Overrides(original="original")).diagnostics:
        if not has_time():
            return
        finding = _macro_finding(each, text, where, language)
        if finding is not None:
            yield finding


def lint_head_text(text: str, where: str) -> Iterator[Finding]:
    """Check a text that is before the chat: macros that change it defeat a prompt cache."""
    for name, kind in volatile_macros(text[:MAX_TEXT]).items():
        if kind == "variable":
            continue  # it changes only when it is set
        place = text.lower().find(f"{{{{{name}")
        line, column = line_and_column(text, place) if place >= 0 else (None, None)
        lost = default_estimator().estimate(text[max(place, 0) : MAX_TEXT])
        yield Finding(
            where=where,
            message=f"{{{{{name}}}}} changes in every prompt: prompt caches cannot reuse {lost:,} tokens of this text "
            "or anything after it, including the chat",
            severity=Severity.INFO,
            code="BREAKS_CACHE",
            hint="put it after the chat (post-history instructions, depth 0), or build with volatile='tail'",
            line=line,
            column=column,
        )


def _macro_finding(found: Diagnostic, text: str, where: str, language: Language) -> Finding | None:
    line, column = line_and_column(text, found.position)
    severity = _SEVERITIES.get(found.kind, Severity.INFO)
    code, hint = found.kind.upper(), ""
    if found.kind == "unknown_macro":
        name = found.macro.lower()
        if name in _DELIBERATE:
            return None
        if _cbs_engine().registry.has(found.macro):
            severity, code = Severity.INFO, "RISU_AI_ONLY"
            hint = "a CBS function of RisuAI; SillyTavern sends it as text"
        else:
            hint = _nearest(name) or "it is sent as text"
    elif found.unclosed:
        severity, code = Severity.ERROR, "UNCLOSED_BLOCK"
    return Finding(
        where=where, message=found.message, severity=severity, code=code, hint=hint, line=line, column=column
    )


def _cbs(text: str, where: str) -> Iterator[Finding]:
    from tavernkit.risu_ai._cbs.context import CBSContext

    context = CBSContext(char="Character", user="User", writes="run")
    for found in _cbs_engine().evaluate(text, context).diagnostics:
        unclosed = found.kind == "unclosed"
        line, column = line_and_column(text, found.position)
        yield Finding(
            where=where,
            message=found.message,
            line=line,
            column=column,
            severity=Severity.ERROR if unclosed else Severity.WARNING,
            code="UNCLOSED_BLOCK" if unclosed else "CBS",
        )


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    names = {each.name.lower(): each.name for each in _macro_engine().registry}
    near = get_close_matches(name, names, n=1)
    return f"did you mean {{{{{names[near[0]]}}}}}?" if near else ""


@cache
def _macro_engine() -> MacroEngine:
    from tavernkit.silly_tavern._macros import MacroEngine

    return MacroEngine()


@cache
def _cbs_engine() -> CBSEngine:
    from tavernkit.risu_ai._cbs import CBSEngine

    return CBSEngine()


MAX_SECONDS = 30.0
"""Time for one file; remaining checks are skipped."""


class TimeLimit:
    """The time left for a file, and how many checks were skipped."""

    __slots__ = ("_deadline", "skipped")

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self.skipped = 0

    def has_time(self) -> bool:
        """Return True if there is time for another check; if not, count it as skipped."""
        if time.monotonic() < self._deadline:
            return True
        self.skipped += 1
        return False


_current: ContextVar[TimeLimit | None] = ContextVar("lint_time_limit", default=None)


@contextmanager
def time_limit() -> Generator[TimeLimit]:
    """Share the time for one file among everything that is checked inside."""
    limit = TimeLimit()
    token = _current.set(limit)
    try:
        yield limit
    finally:
        _current.reset(token)


def has_time() -> bool:
    """Return True if there is time for another check; without a time limit there always is."""
    current = _current.get()
    return current is None or current.has_time()
