"""Sends in the way of RisuAI: work for the processor is done in the build executor, models are asked in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence

from tavernkit import risu_ai
from tavernkit.errors import TavernKitError
from tavernkit.models import Reply
from tavernkit.server.build_executor import BuildExecutor
from tavernkit.server.listeners import ClientDisconnectedError
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.talks import talk
from tavernkit.server.talks.risu_ai_lines import open_exchange, system_messages
from tavernkit.server.talks.talk import TalkInput, model_request

ANY_MODEL = "openrouter"
"""RisuAI's name for a model that it knows nothing of but that it speaks OpenAI's protocol: chats without a preset."""


def own_options(options: Mapping[str, object]) -> dict[str, object]:
    """The options of a preset, without the name of a model if it has none."""
    return {key: value for key, value in options.items() if key != "model" or value != ANY_MODEL}


def speaking(plan: risu_ai.RisuPlan) -> str:
    """Who answers a prompt."""
    return plan.text_rules.character_name


class Sending:
    """One send: it may take several requests. One whose reply calls tools ends there."""

    def __init__(self, given: TalkInput, ask: talk.Ask, lines: Sequence[ChatLine]) -> None:
        self.replies: list[Reply] = []
        self.interrupted = ""
        self.calling: risu_ai.RisuPlan | None = None
        """The plan whose reply calls tools."""
        self.in_round = (
            given.cast.group is not None and given.speaker is None and given.kind in ("normal", "regenerate")
        )
        """Whether several members of a group may speak."""
        self.send: risu_ai.Send | None = None
        """The send, once it has begun."""
        self._given = given
        self._last_speaker: str | None = None
        self._ask = ask
        self._before = system_messages(lines)
        self._behind = open_exchange(lines)

    async def run(
        self,
        builder: risu_ai.Builder,
        context: Callable[[], risu_ai.RisuAIContext],
        room: BuildExecutor,
        kind: Hashable,
    ) -> risu_ai.SendResult | None:
        """Send; nothing if tools are called."""
        self.send = await room.run((kind, "begin"), lambda: risu_ai.Send(builder, context()))
        steps = self.send.run()
        answer: risu_ai.Answer | None = None
        while True:
            step = await room.run(kind, lambda answer=answer: _advanced(steps, answer))
            if isinstance(step, risu_ai.SendResult):
                return step
            if isinstance(step, risu_ai.NextChunk):
                answer = risu_ai.Chunk(None)
                continue
            answer = await self._answered(step)
            if self.calling is not None:
                steps.close()
                return None

    async def _answered(self, request: risu_ai.ModelRequest) -> risu_ai.Answer:
        if self.replies and self.replies[-1].interrupted:
            return risu_ai.Failure(self.replies[-1].interrupted)  # whatever was to follow does not
        messages = [*self._before, *request.messages, *self._behind]
        asked = model_request(messages, own_options(request.options), self._given)
        try:
            reply = await self._ask(asked, speaker=self._new_speaker(request.plan))
        except (TavernKitError, ClientDisconnectedError) as error:
            if not self.replies:
                raise
            # What was said before is kept: RisuAI wanted more of it, and there is no more.
            self.interrupted = str(error) or type(error).__name__
            return risu_ai.Failure(self.interrupted)
        self.replies.append(reply)
        if reply.tool_calls:
            self.calling = request.plan
        return risu_ai.Reply(reply.text)

    def _new_speaker(self, plan: risu_ai.RisuPlan) -> str | None:
        """Who speaks in a group's round, if that was somebody else before."""
        before, self._last_speaker = self._last_speaker, speaking(plan) if self.in_round else None
        return self._last_speaker if self._last_speaker != before else None


def _advanced(
    steps: Generator[risu_ai.Ask, risu_ai.Answer, risu_ai.SendResult], answer: risu_ai.Answer | None
) -> risu_ai.Ask | risu_ai.SendResult:
    """Let a send work until it asks for something, or ends."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        return done.value
