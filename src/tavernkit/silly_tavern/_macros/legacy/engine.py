"""The legacy engine: SillyTavern's macros before Macros 2.0, still available as a setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from tavernkit._macros import size_of
from tavernkit.silly_tavern._macros.call import Diagnostic, Report
from tavernkit.silly_tavern._macros.engine import Expander
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.legacy.run import LegacyRun
from tavernkit.silly_tavern._macros.run import DynamicMacro, Overrides, refused

_LEFT_OVER = re.compile(r"\{\{([^{}\n]{1,80})\}\}")
_NAME_END = re.compile(r"[:\s]")
_UNCLOSED = re.compile(r"\{\{[^\n]{0,40}")
_LISTED = 3
"""How many left-over braces a message shows."""


class LegacyMacroEngine(Expander):
    """Expands texts as SillyTavern does with Macros 2.0 disabled: pass by pass over the whole text.

    Later passes expand the results of earlier ones. ``macros`` are macros of extensions; they override those passed to
    ``expand()``.

    >>> from tavernkit.silly_tavern._macros import MacroEnvironment
    >>> LegacyMacroEngine().expand("<USER> meets {{char}}.", MacroEnvironment(user_name="Ann", character_name="Bel"))
    'Ann meets Bel.'
    """

    def __init__(self, macros: Mapping[str, DynamicMacro] | None = None) -> None:
        self._macros = dict(macros or {})

    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not empty."""
        budget = environment.budget
        if budget is not None and budget.spent:
            return refused(text, budget, send)
        run = LegacyRun(self._macros, environment, overrides, send, text)
        try:
            expanded = run.expand_inside(text)
        finally:
            run.close()
            if budget is not None:
                budget.spend(run.budget.work, run.budget.produced)
        if budget is not None and not budget.keep(size_of(expanded)):
            return refused(text, budget, send)
        if "{{" in expanded:
            _report_left_over(run, expanded)
        return expanded


def _report_left_over(run: LegacyRun, text: str) -> None:
    """Report unknown macros, without duplicates, and braces that are not macros."""
    names = {_NAME_END.split(found[1], maxsplit=1)[0] for found in _LEFT_OVER.finditer(text)}
    for name in sorted(names):
        if name.lower() not in run.overrides.leave:
            run.report(
                Diagnostic(kind="unknown_macro", message=f"unknown macro {{{{{name}}}}} stays as text", macro=name)
            )
    rest = _LEFT_OVER.sub("", text)
    if "{{" in rest:
        left = [found[0] for found in islice(_UNCLOSED.finditer(rest), _LISTED)]
        message = f"macro braces stay as text: {', '.join(map(repr, left))}"
        run.report(Diagnostic(kind="unconsumed", message=message, macro=left[0], remaining=tuple(left)))
