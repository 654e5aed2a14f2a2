"""Requests of triggers to the application: dialogs, models, pictures, the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject
from tavernkit.errors import TavernKitError

AlertKind = Literal["normal", "error", "markdown"]
ReplyKind = Literal["success", "fail", "streaming", "multiline"]


class HostRefusedError(TavernKitError):
    """Raise this from a host method that the application does not offer; the message says what was refused.

    The run continues with an empty answer, a warning and a ``refused`` event.
    """


@dataclass(frozen=True, slots=True)
class LLMReply:
    """A model's answer; anything but ``success`` is a failure, and ``text`` says why."""

    kind: ReplyKind
    """``success``, ``fail``, ``streaming`` or ``multiline``."""
    text: str


@dataclass(frozen=True, slots=True)
class FetchReply:
    """What a server answered."""

    status: int
    """The HTTP status."""
    text: str
    """The body."""


@dataclass(frozen=True, slots=True)
class InlayData:
    """A stored picture, audio or video; ``data`` is base64."""

    kind: str
    """``image``, ``video`` or ``audio``."""
    data: str
    width: int | None = None
    """Width in pixels, if known."""
    height: int | None = None
    """Height in pixels, if known."""


@runtime_checkable
class TriggerHost(Protocol):
    """The application's part of effects. Any method may raise ``HostRefusedError``.

    Calls are synchronous and in the order of the effects. Low-level access is checked before each call.
    """

    def log(self, value: Json) -> None:
        """Write to the console."""
        ...

    def alert(self, kind: AlertKind, text: str) -> None:
        """Show a text to the user.

        Args:
            kind: The kind of message.
            text: The text.
        """
        ...

    def ask(self, text: str) -> str:
        """Let the user type something."""
        ...

    def select(self, options: Sequence[str], title: str | None) -> str:
        """Let the user pick an option; returns its index as text.

        Args:
            options: The options.
            title: What is shown above them.
        """
        ...

    def confirm(self, text: str) -> bool:
        """Ask the user yes or no."""
        ...

    def llm(self, messages: Sequence[JsonObject], model: str) -> LLMReply:
        """Ask a model. ``messages`` have role and content; ``model`` is ``model``, ``submodel`` or ``otherAx``."""
        ...

    def image(self, prompt: str, negative: str, character: str) -> str | None:
        """Make a picture and store it; return the id of the inlay, or None on failure.

        Args:
            prompt: What the picture shows.
            negative: What it must not show.
            character: The character it is made for.
        """
        ...

    def inlay(self, name: str) -> InlayData | None:
        """Return a stored inlay."""
        ...

    def asset_inlay(self, path: str) -> str | None:
        """Make an inlay from a stored picture (of the character or persona); return its id."""
        ...

    def similarity(self, query: str, texts: Sequence[str]) -> Sequence[str]:
        """Rank texts by how close they are to a query.

        Args:
            query: The text to compare with.
            texts: The texts to rank.
        """
        ...

    def fetch(self, url: str) -> FetchReply:
        """Fetch an address. Raises ``OSError`` if it cannot be reached."""
        ...

    def sleep(self, milliseconds: float) -> None:
        """Wait, if the application wants to."""
        ...

    def speak(self, text: str) -> None:
        """Read a text aloud."""
        ...

    def send_chat(self) -> None:
        """Let the model answer the chat as it is stored."""
        ...


class RefusingHost:
    """The default host: accepts logs and waits, and refuses everything else.

    Subclass it to offer only some features.
    """

    def log(self, value: Json) -> None:
        """Do nothing: the event log has it."""

    def alert(self, kind: AlertKind, text: str) -> None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to show a message")

    def ask(self, text: str) -> str:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to ask the user for a text")

    def select(self, options: Sequence[str], title: str | None) -> str:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to let the user choose")

    def confirm(self, text: str) -> bool:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to ask the user yes or no")

    def llm(self, messages: Sequence[JsonObject], model: str) -> LLMReply:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to ask a model")

    def image(self, prompt: str, negative: str, character: str) -> str | None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to make a picture")

    def inlay(self, name: str) -> InlayData | None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to read a stored picture")

    def asset_inlay(self, path: str) -> str | None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to store a picture")

    def similarity(self, query: str, texts: Sequence[str]) -> Sequence[str]:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to compare texts by their meaning")

    def fetch(self, url: str) -> FetchReply:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to use the network")

    def sleep(self, milliseconds: float) -> None:
        """Return at once."""

    def speak(self, text: str) -> None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to speak")

    def send_chat(self) -> None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to send the chat")
