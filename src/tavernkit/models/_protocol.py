"""The protocol of models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models._request import Request


class AsyncContext:
    """Closes itself at the end of ``async with``."""

    async def aclose(self) -> None:
        """Close connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@runtime_checkable
class Model(Protocol):
    """Answers requests. Errors are ``ModelError`` and its subclasses.

    A request that names no model asks for ``name``. ``async with model:`` or ``aclose()`` closes connections.
    """

    @property
    def name(self) -> str:
        """The model's name, as the provider spells it; empty if requests must name one."""
        ...

    @property
    def dialect(self) -> str:
        """The protocol it speaks: ``openai``, ``anthropic``, ``google``, ``text``."""
        ...

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Send a request and return the whole reply.

        Args:
            request: What to send.
            on_delta: Called with each piece of the reply as it arrives; this makes the reply a stream.

        Raises:
            ModelError: There is no usable reply; ``partial`` is the text before a stream broke.
        """
        ...

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Send a request and iterate over the reply as it arrives. Close the iterator to cancel the request."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...

    async def __aenter__(self) -> Self:
        """Return the model."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections."""
        ...
