"""Shared code of the readers of all protocols."""

from __future__ import annotations

from typing import Protocol

from tavernkit._values import Json, JsonObject
from tavernkit.models._reply import ReplyPiece
from tavernkit.models.errors import ConnectionFailedError, ProviderError, error_text


class Reader(Protocol):
    """Translates what a provider sends, a whole body or the events of a stream, into pieces. One per reply."""

    done: bool
    """True once the provider has signalled the end."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event. Raises ProviderError if it reports an error."""
        ...

    def finish(self, *, streamed: bool) -> None:
        """Raise if the reply is cut off or empty."""
        ...


class ReaderState:
    """Tracks whether a reply is complete: whether it has any content, and whether it ended."""

    def __init__(self) -> None:
        self.done = False
        self.said = False
        """True if there is a reply, even an empty text."""
        self.ended = False
        self.reason = ""
        self.last: JsonObject = {}

    def finish(self, *, streamed: bool) -> None:
        """Raise if the reply is cut off or empty."""
        if streamed and not (self.ended or self.done):
            raise ConnectionFailedError("the stream ended before the reply did", answering=True)
        if not self.said:
            raise ProviderError(_emptiness(self.reason, self.last), body=self.last)


def reports_error(event: JsonObject) -> bool:
    """Return True if a body or an event is an error, whatever the HTTP status was."""
    if event.get("error") or event.get("object") == "error":
        return True
    # FastAPI's errors are a detail, NovelAI's a status code and a message.
    return "choices" not in event and bool(event.get("detail") or ("statusCode" in event and event.get("message")))


def provider_error(body: JsonObject) -> ProviderError:
    """Make the error that a provider reports inside a 200 response."""
    return ProviderError(error_text(body) or "the provider reported an error", body=body)


def _emptiness(reason: str, body: JsonObject) -> str:
    said = error_text(body)
    if said:
        return f"the provider sent no reply: {said}"
    return f"the provider sent an empty reply (finish reason: {reason})" if reason else "the provider sent no reply"


def text_of(value: Json) -> str:
    """Return a text, or empty text for anything else."""
    return value if isinstance(value, str) else ""


def number_of(value: Json) -> int:
    """Return a whole number, or zero for anything else."""
    return value if isinstance(value, int) else 0
