"""Chats in the way of RisuAI."""

from __future__ import annotations

import dataclasses
import time

from tavernkit import risu_ai
from tavernkit.cards import User
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS
from tavernkit.server.storage.chats import PARTIAL, ChatLine, new_line
from tavernkit.server.talks.talk import Ask, BuiltPrompt, TalkInput, TalkResult, model_request
from tavernkit.server.upstreams import Reply
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.values import JsonObject, LRUCache, is_object, thaw, thaw_object

ROLES = {"user": "user", "char": "assistant"}
SWIPES = "tavernkit_swipes"
"""Where the other replies to a message are kept in it; RisuAI keeps none."""


class RisuTalk:
    """Builds prompts as RisuAI does, with its triggers and scripts, and keeps its chats."""

    def __init__(self) -> None:
        self._services = risu_ai.Builder().services
        self._builders: LRUCache[tuple[object, ...], risu_ai.Builder] = LRUCache(CACHED_BUILDERS)

    def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> list[ChatLine]:
        """Nothing: RisuAI's greeting is part of the prompt, not of the stored chat."""
        del cast, user_name, index
        return []

    def user_line(self, text: str, *, user_name: str, extra: JsonObject | None = None) -> ChatLine:
        """A line of the user, as it is typed."""
        del user_name, extra
        line = new_line("user", text, {})
        return dataclasses.replace(line, native=_stored(line.id, "user", text))

    def reply_line(self, text: str) -> ChatLine:
        """A reply out of a client's own history."""
        line = new_line("assistant", text, {})
        return dataclasses.replace(line, native=_stored(line.id, "char", text))

    def neutral_line(self, role: str, content: str, metadata: JsonObject) -> ChatLine:
        """RisuAI has no lines for tools."""
        del content, metadata
        raise ServiceError(400, f"messages of the role {role!r} are not for RisuAI's chats", code="unsupported_role")

    def edited(self, line: ChatLine, content: str, cast: Cast, *, user_name: str) -> str:
        """An edited message as it is typed: RisuAI's scripts run when it is sent or shown."""
        del line, cast, user_name
        return content

    async def build(self, given: TalkInput) -> BuiltPrompt:
        """Build the prompt of a turn."""
        plan = self._builder(given.cast).build(**_inputs(given, _variables(given)))
        body = plan.to_request(warn=_quiet)
        messages = body.pop("messages")
        assert isinstance(messages, list)
        own = [message for message in messages if is_object(message)]
        return BuiltPrompt(
            plan=plan, request=model_request(own, plan.llm_options, given.options), speaker=given.cast.name
        )

    async def run(self, given: TalkInput, ask: Ask) -> TalkResult:
        """Do a whole send as RisuAI does: several requests, if it takes them."""
        if given.kind == "impersonate":
            raise ServiceError(400, "RisuAI does not impersonate", code="unsupported_kind", param="kind")
        variables = _variables(given)
        replies: list[Reply] = []

        async def model(request: risu_ai.ModelRequest) -> str:
            body = model_request(request.messages, {**request.options, "model": request.model}, given.options)
            replies.append(await ask(body))
            return replies[-1].text

        result = await self._builder(given.cast).send_async(model, **_inputs(given, variables))
        if result.error is not None:
            raise ServiceError(400, result.error.message, code=result.error.code.lower())
        reply = replies[-1] if replies else Reply(finish_reason="stop")
        lines, reply_id = _next_lines(given, result.chat, broken=reply.broken)
        stored = variables.to_dict()
        spoken = [line for line in lines if line.id == reply_id]
        return TalkResult(
            reply=reply,
            text=spoken[0].content if spoken and given.kind != "continue" else reply.text,
            speaker=given.cast.name,
            plan=result.plans[-1] if result.plans else None,
            lines=lines,
            reply_id=reply_id,
            details=_details(result.chat),
            local_variables=stored.get("local", {}),
            global_variables=stored.get("global", {}),
            warnings=tuple(result.warnings),
        )

    def _builder(self, cast: Cast) -> risu_ai.Builder:
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

    def _make_builder(self, cast: Cast) -> risu_ai.Builder:
        if cast.group is not None:
            raise ServiceError(400, "groups are for SillyTavern's chats", code="unsupported_group", param="platform")
        inputs: dict[str, object] = {"warning_handler": None, "character": cast.character}
        if isinstance(cast.preset, risu_ai.Preset):
            inputs["preset"] = cast.preset
        if cast.persona is not None:
            inputs["user"] = User(name=cast.persona.name, persona=cast.persona.description)
        return risu_ai.Builder(services=self._services).replace(**inputs)


def _inputs(given: TalkInput, variables: InMemoryVariablesStore) -> dict[str, object]:
    lines = list(given.lines)
    if given.kind in ("swipe", "regenerate"):
        if not lines or lines[-1].role != "assistant":
            raise ServiceError(409, f"there is no reply to {given.kind}", code="no_reply")
        lines.pop()
    inputs: dict[str, object] = {
        "variables": variables,
        "generation_type": "continue" if given.kind == "continue" else "normal",
    }
    if lines and lines[-1].id == given.pending:
        inputs["message"] = lines.pop().content
    inputs["history"] = {**given.details, "id": given.chat_id, "message": [line.native for line in lines]}
    if given.cast.persona is None:
        inputs["user"] = User(name=given.user_name)
    if given.seed is not None:
        inputs["seed"] = given.seed
    return inputs


def _next_lines(given: TalkInput, chat: risu_ai.RisuChat, *, broken: str | None) -> tuple[list[ChatLine], str | None]:
    """The lines a send leaves behind; known ones are found again by RisuAI's own ids."""
    known = {str(line.native.get("chatId")): line for line in given.lines}
    pending = next((line for line in given.lines if line.id == given.pending), None)
    lines: list[ChatLine] = []
    for message in chat.messages:
        native = thaw_object(message.to_json())
        line = known.get(str(native.get("chatId")))
        if line is None and pending is not None and message.role == "user":
            line, pending = pending, None
            native["chatId"] = line.id
        if line is None:
            line = new_line(ROLES.get(message.role, "assistant"), message.data, native)
        if line.content != message.data or line.native != native:
            line = dataclasses.replace(line, content=message.data, native=native)
        lines.append(line)
    last = lines[-1] if lines and lines[-1].role == "assistant" else None
    if last is None:
        return lines, None
    if broken:
        lines[-1] = last = dataclasses.replace(last, status=PARTIAL)
    if given.kind == "swipe":
        lines[-1] = last = _swiped(given.lines[-1], last)
    return lines, last.id


def _swiped(old: ChatLine, new: ChatLine) -> ChatLine:
    """The old line with the new reply beside its others."""
    kept = old.native.get(SWIPES)
    swipes = [*kept] if isinstance(kept, list) else [thaw(old.content)]
    native: JsonObject = {**new.native, "chatId": old.id, SWIPES: [*swipes, new.content]}
    return dataclasses.replace(old, content=new.content, native=native, status=new.status)


def _details(chat: risu_ai.RisuChat) -> JsonObject:
    """What a chat holds besides lines and variables."""
    return {key: value for key, value in thaw_object(chat.raw).items() if key not in ("message", "scriptstate")}


def _stored(line_id: str, role: str, text: str) -> JsonObject:
    return {"role": role, "data": text, "chatId": line_id, "time": int(time.time() * 1000)}


def _variables(given: TalkInput) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": given.local_variables, "global": given.global_variables})


def _quiet(_: str) -> None:
    """Warnings of a build are in its plan."""
