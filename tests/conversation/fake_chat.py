"""The smallest chat that follows the protocol: for tests of what is around chats."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Literal

from tavernkit._turns import Exchange, Host, Turn, TurnKind
from tavernkit._values import JsonObject
from tavernkit.models import ReplyPiece
from tavernkit.prompt import Block, Plan


class FakeChat:
    host: Host

    def __init__(self, *texts: str) -> None:
        self._lines: list[JsonObject] = [{"text": text} for text in texts]

    async def send(self, text: str = "") -> Turn:
        self._lines.append({"text": text, "user": True})
        await self.host.checkpoint()
        return await self._answer("send")

    async def regenerate(self) -> Turn:
        del self._lines[-1:]
        return await self._answer("regenerate")

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        return Turn(kind="swipe") if direction == "left" else await self.regenerate()

    async def continue_reply(self, text: str = "") -> Turn:
        return await self._answer("continue")

    async def impersonate(self) -> Turn:
        return await self.quiet("impersonate")

    async def quiet(self, prompt: str) -> Turn:
        plan = self.preview(prompt)
        reply = await self.host.ask(plan)
        return Turn(kind="quiet", text=reply.text, exchanges=(Exchange(plan=plan, reply=reply),))

    async def speak(self, member: str) -> Turn:
        return await self._answer("speak")

    def preview(self, text: str = "") -> Plan:
        said = [str(line["text"]) for line in self._lines] + [text] * bool(text)
        return Plan([Block(role="user", content=each) for each in said])

    def choose_greeting(self, index: int) -> None:
        self._lines[0] = {"text": f"greeting {index}"}

    def edit(self, index: int, text: str) -> None:
        self._lines[index] = {**self._lines[index], "text": text}

    def delete(self, index: int) -> None:
        del self._lines[index]

    def delete_from(self, index: int) -> None:
        del self._lines[index:]

    def hide(self, start: int, end: int | None = None) -> None:
        self._lines[start]["hidden"] = True

    def unhide(self, start: int, end: int | None = None) -> None:
        self._lines[start].pop("hidden", None)

    def branch(self, index: int) -> FakeChat:
        twin = FakeChat()
        twin.restore({"lines": self._lines[: index + 1 or None]})
        return twin

    @property
    def lines(self) -> Sequence[Mapping[str, object]]:
        return self._lines

    @property
    def texts(self) -> list[object]:
        return [line["text"] for line in self._lines]

    def snapshot(self) -> JsonObject:
        return {"lines": [*copy.deepcopy(self._lines)]}

    def restore(self, snapshot: Mapping[str, object]) -> None:
        lines = copy.deepcopy(snapshot["lines"])
        assert isinstance(lines, list)
        self._lines = lines

    async def _answer(self, kind: TurnKind) -> Turn:
        plan = self.preview()
        line: JsonObject = {"text": ""}

        def grow(piece: ReplyPiece) -> None:
            if line not in self._lines:
                self._lines.append(line)
            line["text"] = f"{line['text']}{piece.text}"

        exchanges: list[Exchange] = []
        while True:
            reply = await self.host.ask(plan, on_piece=grow)
            exchanges.append(Exchange(plan=plan, reply=reply))
            for call in reply.tool_calls:
                outcome = await self.host.call_tool(call)
                self._lines.append({"text": outcome.result, "tool": call.name, "failed": outcome.failed})
            if not reply.tool_calls:
                break
        if line not in self._lines:
            self._lines.append(line)
        line["text"] = reply.text
        await self.host.checkpoint()
        return Turn(kind=kind, text=reply.text, exchanges=tuple(exchanges))
