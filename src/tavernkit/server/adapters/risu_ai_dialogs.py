"""What RisuAI's triggers show and ask."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import JsonObject
from tavernkit.risu_ai import HostRefusedError, RefusingHost
from tavernkit.risu_ai._triggers.host import AlertKind
from tavernkit.server.limits import MAX_ALERTS


class Dialogs(RefusingHost):
    """Collects what triggers show the user, and answers their questions with what the client has sent along."""

    def __init__(self, answers: Sequence[str]) -> None:
        self.shown: list[JsonObject] = []
        self._answers = list(answers)

    def alert(self, kind: AlertKind, text: str) -> None:
        """Keep a text for the client."""
        self._show(kind, text)

    def ask(self, text: str) -> str:
        """Return the next answer."""
        self._show("input", text)
        return self._answer()

    def select(self, options: Sequence[str], title: str | None) -> str:
        """Return the next answer, which is the number of an option."""
        self._show("select", title or "", options)
        return self._answer()

    def confirm(self, text: str) -> bool:
        """Return True if the next answer is ``yes``."""
        self._show("confirm", text)
        return self._answer() == "yes"

    def _show(self, kind: str, text: str, options: Sequence[str] = ()) -> None:
        if len(self.shown) >= MAX_ALERTS:
            raise HostRefusedError(f"to show more than {MAX_ALERTS} messages")
        self.shown.append({"kind": kind, "text": text, "options": [*options]})

    def _answer(self) -> str:
        if not self._answers:
            raise HostRefusedError("to ask the user: the client has sent no answer")
        return self._answers.pop(0)
