"""The legacy engine: SillyTavern's macros as they were before Macros 2.0, still there as a setting."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.silly_tavern.macros.diagnostics import Diagnostic, reporter
from tavernkit.silly_tavern.macros.engine import MacroResult
from tavernkit.silly_tavern.macros.environment import MacroEnvironment
from tavernkit.silly_tavern.macros.legacy.run import LegacyRun
from tavernkit.silly_tavern.macros.run import DynamicMacro, Overrides, PostProcess

_LEFT_OVER = re.compile(r"\{\{([^{}\n]{1,80})\}\}")
_NAME_END = re.compile(r"[:\s]")


class LegacyMacroEngine:
    """Expands texts as SillyTavern does with Macros 2.0 switched off: pass by pass over the whole text.

    What one pass puts into the text the later ones expand again. ``macros`` are macros of extensions; they win over
    those passed to :meth:`expand`.

    >>> from tavernkit.silly_tavern.macros import MacroEnvironment
    >>> LegacyMacroEngine().expand("<USER> meets {{char}}.", MacroEnvironment(user_name="Ann", character_name="Bel"))
    'Ann meets Bel.'
    """

    def __init__(self, macros: Mapping[str, DynamicMacro] | None = None) -> None:
        self._macros = dict(macros or {})

    def expand(
        self,
        text: str,
        environment: MacroEnvironment,
        *,
        warn: Warn | None = None,
        strict: bool = False,
        original: str | None = None,
        macros: Mapping[str, DynamicMacro] | None = None,
        user_name: str | None = None,
        character_name: str | None = None,
        group: str | None = None,
        card: bool = True,
        leave: Collection[str] = (),
        post_process: PostProcess | None = None,
    ) -> str:
        """Expand the macros of a text; the arguments are those of :meth:`MacroEngine.expand`."""
        overrides = Overrides(
            user_name=user_name,
            character_name=character_name,
            group=group,
            original=original,
            card=card,
            macros=macros,
            post_process=post_process,
            leave=leave,
        )
        send = reporter(log_warning if warn is None else warn, strict=strict)
        return self._run(LegacyRun(self._macros, environment, overrides, send, _checked(text)))

    def evaluate(self, text: str, environment: MacroEnvironment, overrides: Overrides | None = None) -> MacroResult:
        """Expand a text and give the diagnostics with it instead of reporting them."""
        diagnostics: list[Diagnostic] = []
        run = LegacyRun(self._macros, environment, overrides or Overrides(), diagnostics.append, _checked(text))
        expanded = self._run(run)
        return MacroResult(expanded, tuple(diagnostics))

    def _run(self, run: LegacyRun) -> str:
        if not run.text:
            return ""
        expanded = run.expand_inside(run.text)
        if "{{" in expanded:
            _report_left_over(run, expanded)
        return expanded


def _checked(text: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ConfigError(f"the text to expand must be text, not {type(text).__name__}")
    return text


def _report_left_over(run: LegacyRun, text: str) -> None:
    """Report macros that no pass knew, each once."""
    names = {_NAME_END.split(found[1], maxsplit=1)[0] for found in _LEFT_OVER.finditer(text)}
    for name in sorted(names):
        if name.lower() not in run.overrides.leave:
            run.report(
                Diagnostic(kind="unknown_macro", message=f"unknown macro {{{{{name}}}}} stays as text", macro=name)
            )
