"""What triggers may ask of an application: dialogs, models, pictures, the network."""

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

    The run goes on with an empty answer, a warning and a ``refused`` event.
    """


@dataclass(frozen=True, slots=True)
class LLMReply:
    """What a model answered; anything but ``success`` is a failure and ``text`` says why."""

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
    """A stored picture, sound or film; ``data`` is base64."""

    kind: str
    """``image``, ``video`` or ``audio``."""
    data: str
    width: int | None = None
    """Width in pixels, if known."""
    height: int | None = None
    """Height in pixels, if known."""


@runtime_checkable
class TriggerHost(Protocol):
    """What effects need an application for. Any method may raise ``HostRefusedError``.

    Calls are synchronous and in the order of the effects. Low level access has been checked before a call is made.
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
        """Make a picture and store it; returns the id of the inlay, or nothing when it failed.

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
        """Make an inlay of a stored picture (of the character, of the persona); returns its id."""
        ...

    def similarity(self, query: str, texts: Sequence[str]) -> Sequence[str]:
        """Rank texts by how close they are to a query.

        Args:
            query: The text to compare with.
            texts: The texts to rank.
        """
        ...

    def fetch(self, url: str) -> FetchReply:
        """Get an address. An ``OSError`` tells that it could not be reached."""
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
    """The default host: takes notes of what triggers log and wait for, and refuses everything else.

    Derive from it to offer only some of it.
    """

    def log(self, value: Json) -> None:
        """Nothing to do: the event log has it."""

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
        """Go on at once."""

    def speak(self, text: str) -> None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to speak")

    def send_chat(self) -> None:
        """Refuse with ``HostRefusedError``."""
        raise HostRefusedError("to send the chat")
