"""The host that a conversation's chat talks to: asks the model and runs tools."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tavernkit._arguments import require
from tavernkit._turns import Exchange, OnPiece, ToolOutcome
from tavernkit._values import JsonObject
from tavernkit.cache import PromptCache
from tavernkit.conversation._pending_turn import Send
from tavernkit.conversation._tools import ToolBox, ToolInput
from tavernkit.errors import ConfigError
from tavernkit.models._protocol import Model
from tavernkit.models._reply import Reply, ReplyPiece, ToolCall, Usage
from tavernkit.models._streams import Accumulator
from tavernkit.prompt._plan import Plan


class ModelHost:
    """Asks a model, runs tools, and counts tokens."""

    def __init__(
        self,
        model: Model | None,
        tools: Iterable[ToolInput] | ToolBox = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        require("model", model, Model | None, "a model such as tk.model('openai:gpt-4o')")
        require("options", options, Mapping[str, object] | None)
        self.model = model
        self.options: JsonObject = dict(options or {})  # pyright: ignore[reportAttributeAccessIssue]  # JSON by contract
        self.cache: PromptCache | None = None
        """Set this to a ``PromptCache("anthropic")`` to compare predicted cache hits with the reported ones:
        ``cache.report``."""
        self.tools = tools if isinstance(tools, ToolBox) else ToolBox(tools)
        self._exchanges: list[Exchange] = []
        self._on_piece: OnPiece | None = None
        self._send: Send | None = None
        """Sends prompts instead of the model, while the application does it itself."""
        self._usage: Usage | None = None
        self._asked_at = time.monotonic()

    @property
    def usage(self) -> Usage:
        """The tokens of all requests so far, with those that came from the provider's prompt cache."""
        return self._usage or Usage()

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        """Send a prompt to the model. The chat calls this.

        Args:
            plan: The prompt.
            on_piece: Called with each piece of the reply as it comes.

        Raises:
            ConfigError: The conversation has no model.
        """
        if self._send is None and self.model is None:
            raise ConfigError(
                "this conversation has no model: pass model=tk.model(…), or begin() turns and receive() replies",
                code="MODEL_REQUIRED",
            )
        if self.cache is not None:
            now = time.monotonic()
            self.cache.send(plan, idle_seconds=now - self._asked_at)
            self._asked_at = now
        reply = await (self._ask_model(plan, on_piece) if self._send is None else self._send(plan))
        self._note(Exchange(plan=plan, reply=reply))
        if self.cache is not None:
            self.cache.receive(reply.usage)
        return reply

    async def _ask_model(self, plan: Plan, on_piece: OnPiece | None) -> Reply:
        assert self.model is not None
        request = plan.request(self.model.dialect, options=self.options)
        collected = Accumulator(self.model.name)

        def pass_on(piece: ReplyPiece) -> None:
            for take in (collected.add, on_piece, self._on_piece):
                if take is not None:
                    take(piece)

        try:
            # Other requests (summaries, triggers) are not streamed to the caller.
            if self._on_piece is None or on_piece is None:
                return await self.model.send(request)
            return await self.model.send(request, on_delta=pass_on)
        except BaseException as error:
            interrupted = str(error) or type(error).__name__
            self._note(Exchange(plan=plan, reply=collected.reply(interrupted=interrupted)))
            raise

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        """Run a tool that the model asked for. The chat calls this."""
        return await self.tools.call(call)

    def _note(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        usage = exchange.reply.usage
        self._usage = usage if self._usage is None else self._usage + usage
