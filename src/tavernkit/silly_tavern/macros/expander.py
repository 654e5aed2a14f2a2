"""What both engines are asked."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern.macros.diagnostics import Diagnostic, Report, reporter
from tavernkit.silly_tavern.macros.environment import MacroEnvironment
from tavernkit.silly_tavern.macros.registry import MacroNames
from tavernkit.silly_tavern.macros.run import DynamicMacro, Overrides, PostProcess

_LEFT_OVER = re.compile(r"\{\{\s*+([A-Za-z][\w-]*+)[^{}\n]{0,80}\}\}")


def left_over_macros(text: str) -> Iterator[tuple[str, str]]:
    """Find what looks like a macro in an expanded text: its name in lower case, and the whole call.

    SillyTavern does not expand what a macro gives, so macros can come out of variables and other values.
    """
    if "{{" in text:
        for found in _LEFT_OVER.finditer(text):
            yield found[1].lower(), found[0]


@dataclass(frozen=True, slots=True)
class MacroResult:
    """An expanded text and everything there was to say about it."""

    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


class Expander(ABC):
    """An engine that expands the macros of texts; :meth:`run` is what engines do in their own ways."""

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
        leave: MacroNames = (),
        post_process: PostProcess | None = None,
    ) -> str:
        """Expand the macros of a text.

        What is wrong with the text goes to ``warn`` (by default the log) and stays in the text; with ``strict`` it
        raises a :class:`~tavernkit.errors.MacroError`. ``original`` is what ``{{original}}`` gives, once. ``macros``
        are more macros for this text, which win over registered ones; a name in ``leave`` stays without a warning,
        for callers that replace it themselves. ``user_name``, ``character_name`` and ``group`` stand in for the
        environment's names. Without ``card`` the macros of the character card are empty. ``post_process`` changes
        what each macro gives.
        """
        if self.is_plain(text):
            return text
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
        report = reporter(log_warning if warn is None else warn, strict=strict)
        expanded = self.run(text, environment, overrides, report)
        # Braces that are escaped are meant to stay.
        if strict and "\\{" not in text:
            left = [macro for name, macro in left_over_macros(expanded) if name not in leave]
            if left:
                message = f"{left[0]} came out of a macro and stays as text"
                report(Diagnostic(kind="unconsumed", message=message, macro=left[0], remaining=tuple(left)))
        return expanded

    def evaluate(self, text: str, environment: MacroEnvironment, overrides: Overrides | None = None) -> MacroResult:
        """Expand a text and give the diagnostics with it instead of reporting them."""
        if self.is_plain(text):
            return MacroResult(text)
        diagnostics: list[Diagnostic] = []
        expanded = self.run(text, environment, overrides or Overrides(), diagnostics.append)
        return MacroResult(expanded, tuple(diagnostics))

    @abstractmethod
    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not plain."""

    def is_plain(self, text: str) -> bool:
        """Return True if nothing happens when the text is expanded."""
        return not text
