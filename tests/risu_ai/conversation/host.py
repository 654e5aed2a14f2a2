"""A host for chats in tests: it answers from a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._turns import OnPiece, ToolOutcome
from tavernkit.models._reply import Reply, ReplyPiece, ToolCall
from tavernkit.prompt._plan import Plan

Answer = str | Sequence[str | BaseException] | Exception | Reply


class ScriptedHost:
    """Answers with the next reply: a text, the pieces of a stream, or an error. ``events`` has what happened."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.plans: list[Plan] = []
        self.events: list[str] = []
        self.at_checkpoint: Callable[[], object] = lambda: None

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        self.plans.append(plan)
        self.events.append("ask")
        answer = self.answers.pop(0) if self.answers else "OK."
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, str):
            return Reply(text=answer)
        for piece in answer:
            if isinstance(piece, BaseException):
                raise piece
            assert on_piece is not None
            on_piece(ReplyPiece(text=piece))
        return Reply(text="".join(map(str, answer)))

    async def checkpoint(self) -> None:
        self.events.append("checkpoint")
        self.at_checkpoint()

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        self.events.append(f"tool {call.name}")
        return ToolOutcome(result=f"{call.name} of {call.arguments}")
