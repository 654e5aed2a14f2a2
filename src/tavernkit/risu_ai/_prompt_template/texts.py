"""Expands texts during a build, with what the build knows at that moment."""

from __future__ import annotations

from typing import Unpack

from tavernkit._text.traced import plain
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext, CBSContextChanges
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat


class Texts:
    """The CBS engine bound to one build. ``context`` changes as the build goes on."""

    def __init__(self, engine: CBSEngine, context: CBSContext, *, warn: Warn, strict: bool) -> None:
        self.engine = engine
        self.context = context
        self._warn = warn
        self._strict = strict
        self._roles: dict[str | None, CBSContext] = {}

    def untraced(self) -> Texts:
        """Return what expands the same texts and loses their places, for a source map."""
        return _Untraced(self.engine, self.context, warn=self._warn, strict=self._strict)

    def __call__(self, text: str, *, role: str | None = None) -> str:
        """Expand a text for the speaking character; ``role`` is what ``{{role}}`` prints."""
        if "{" not in text and "<" not in text:
            return text
        context = self._roles.get(role)
        if context is None:
            context = self._roles[role] = self.context.replace(role=role)
        return self._expand(text, context)

    def as_speaker(self, text: str, speaker: RisuCharacter | str | None) -> str:
        """Expand a text for another speaker, or for none."""
        return self._expand(text, self.context.replace(speaker=speaker))

    def with_writes(self, text: str) -> str:
        """Expand a text and carry out what it writes to variables."""
        if "{" not in text and "<" not in text:
            return text
        return self._expand(text, self.context.replace(writes="run"))

    def change(self, **changes: Unpack[CBSContextChanges]) -> None:
        """Let later texts see something else."""
        self.context = self.context.replace(**changes)
        self._roles.clear()

    def see_chat(self, chat: RisuChat) -> None:
        """Let later texts see the chat as it is stored now."""
        self.change(chat=chat)

    def _expand(self, text: str, context: CBSContext) -> str:
        return self.engine.expand(text, context, warn=self._warn, strict=self._strict)


class _Untraced(Texts):
    """Expands texts without tracing where they come from."""

    def _expand(self, text: str, context: CBSContext) -> str:
        return super()._expand(plain(text), context)
