"""What the tests of this room share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from tavernkit.models import Model, ReplyPiece, Request


def loose(value: object) -> Any:
    """The same value, for tests that look deep into JSON."""
    return value


def ask(**fields: Any) -> Request:
    """A request; a short one unless messages are given."""
    given: dict[str, Any] = {"messages": ({"role": "user", "content": "hi"},), **fields}
    return Request(**given)


def body_request(body: Mapping[str, Any]) -> Request:
    """A request from a body in OpenAI's shape."""
    return Request.from_body(body)


async def pieces_of(
    model: Model, request: Request | None = None, received: list[str] | None = None
) -> list[ReplyPiece]:
    """All pieces of a stream; ``received`` gets the texts as they come."""
    collected: list[ReplyPiece] = []
    async with aclosing(model.stream(request or ask())) as pieces:
        async for piece in pieces:
            collected.append(piece)
            if received is not None:
                received.append(piece.text)
    return collected


def text_of(pieces: list[ReplyPiece]) -> str:
    """What the pieces say together."""
    return "".join(piece.text for piece in pieces)
