"""The macro engine, bound to one build."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from tavernkit._text.traced import substitute
from tavernkit.errors import Warn
from tavernkit.silly_tavern._macros.call import reporter
from tavernkit.silly_tavern._macros.engine import MacroEngine
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.legacy_engine import LegacyMacroEngine
from tavernkit.silly_tavern._macros.run import DynamicMacro, Overrides
from tavernkit.silly_tavern._templates.templates import NAME_MACRO

_NEWLINES = re.compile(r"\n+")
_KEPT: Mapping[str, DynamicMacro] = {"original": "{{original}}"}
_BIAS_MACRO = ("bias",)


class Substitution:
    """Expands texts of one build. ``environment`` changes during the build (the chat, the outlets)."""

    __slots__ = (
        "_engine",
        "_extra",
        "_in_cards",
        "_in_sequences",
        "_report",
        "_skips_plain_text",
        "_usual",
        "environment",
    )

    def __init__(
        self,
        engine: MacroEngine | LegacyMacroEngine,
        environment: MacroEnvironment,
        *,
        warn: Warn,
        strict: bool = False,
        macros: Mapping[str, object] | None = None,
    ) -> None:
        self._engine = engine
        self._report = reporter(warn, strict=strict)
        # The legacy engine expands the card's own texts with every text, plain ones too.
        self._skips_plain_text = isinstance(engine, MacroEngine)
        self._extra = cast("Mapping[str, DynamicMacro]", macros) if macros else None
        self._usual = Overrides(macros=self._extra)
        self._in_sequences = Overrides(macros=self._extra, leave=NAME_MACRO)
        self._in_cards: Overrides | None = None
        self.environment = environment

    def __call__(self, text: str) -> str:
        """Expand a text."""
        if self._skips_plain_text and "{" not in text and "<" not in text and "\\" not in text:
            return text
        return self._expand(text, self._usual)

    def card(self, text: str, character_name: str | None = None) -> str:
        """Expand a text of a card: card macros are empty, carriage returns removed, newlines collapsed if configured.

        ``character_name`` replaces ``{{char}}``. ``{{original}}`` stays until the text replaces another.
        """
        if not text:
            return text
        overrides = self._in_cards
        if overrides is None or character_name is not None:
            kept = {**self._extra, **_KEPT} if self._extra else _KEPT
            overrides = Overrides(macros=kept, character_name=character_name, card=False)
            if character_name is None:
                self._in_cards = overrides
        text = self._expand(text, overrides)
        if self.environment.collapse_newlines:
            text = substitute(_NEWLINES, "\n", text)
        # SillyTavern does this last: line breaks with carriage returns between them are not collapsed.
        return text.replace("\r", "")

    def with_original(self, text: str, original: str) -> str:
        """Expand a text in which ``{{original}}`` is the text it replaces."""
        return self._expand(text, Overrides(macros=self._extra, original=original))

    def typed(self, text: str) -> str:
        """Expand what the user typed; ``{{bias "…"}}`` stays for the step that reads it."""
        if _BIAS_MACRO[0] not in text:
            return self(text)
        return self._expand(text, Overrides(macros=self._extra, leave=_BIAS_MACRO))

    def sequence(self, text: str) -> str:
        """Expand a sequence of instruct mode; ``{{name}}`` stays for the formatter."""
        return self._expand(text, self._in_sequences)

    def with_macros(self, text: str, macros: Mapping[str, DynamicMacro]) -> str:
        """Expand a text with additional macros."""
        return self._expand(text, Overrides(macros={**(self._extra or {}), **macros}))

    def leaves(self, text: str) -> bool:
        """Return True if expanding the text certainly has no effect, without parsing it."""
        return self._skips_plain_text and "{" not in text and "<" not in text and "\\" not in text

    def is_plain(self, text: str) -> bool:
        """Return True if expanding the text has no effect."""
        return self._engine.is_plain(text)

    @property
    def names(self) -> tuple[str, str]:
        """The names of the user and the character."""
        return self.environment.user_name, self.environment.character_name

    def depends_on_names(self, text: str) -> bool:
        """Return True if the expansion of a text is known to depend only on the names."""
        engine = self._engine
        return isinstance(engine, MacroEngine) and engine.depends_on_names(text, self.environment, self._usual)

    def in_script(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        """Expand a text of a regex script."""
        if self._engine.is_plain(text):
            return text
        overrides = Overrides(
            user_name=None,
            character_name=character,
            group=None,
            original=None,
            card=True,
            macros=self._extra,
            post_process=escape,
            leave=(),
        )
        return self._engine.run(text, self.environment, overrides, self._report)

    def _expand(self, text: str, overrides: Overrides) -> str:
        if self._engine.is_plain(text):
            return text
        return self._engine.run(text, self.environment, overrides, self._report)

    def change(self, **changes: object) -> None:
        """Change the environment of later texts."""
        self.environment = self.environment.replace(**changes)
