"""The messages of a chat as JSON and as its file has them: nothing is made again of a message that is the same."""

from __future__ import annotations

from tavernkit._text.js_values import json_stringify
from tavernkit._values import GrowingJoin, Json, same_start, thaw
from tavernkit.risu_ai._objects import RisuMessage


class StoredMessages:
    """What was made of the messages of a chat. Messages cannot be changed, so that other objects are other messages."""

    def __init__(self) -> None:
        self._messages: tuple[RisuMessage, ...] = ()
        self._json: list[Json] = []
        self._written: list[bytes] = []
        self._joined = GrowingJoin(b",")

    def json(self, messages: tuple[RisuMessage, ...]) -> list[Json]:
        """Return messages as JSON, in a list of its own; the messages in it are not to be changed."""
        self._see(messages)
        return [*self._json]

    def written(self, messages: tuple[RisuMessage, ...]) -> list[bytes]:
        """Return messages as a file has them, to be joined by commas; most are joined already."""
        self._see(messages)
        for message in self._json[len(self._written) :]:
            self._written.append(json_stringify(message).encode("utf-8", "surrogatepass"))
        return self._joined.join(self._written)

    def _see(self, messages: tuple[RisuMessage, ...]) -> None:
        if messages is self._messages:
            return
        same = same_start(self._messages, messages)
        del self._json[same:], self._written[same:]
        self._json += [thaw(message.to_json()) for message in messages[same:]]
        self._messages = messages
