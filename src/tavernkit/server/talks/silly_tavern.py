"""Chats in the way of SillyTavern."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime

from tavernkit import silly_tavern as st
from tavernkit.cards import User
from tavernkit.server.build_room import BuildRoom
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS
from tavernkit.server.storage.chats import COMPLETE, PARTIAL, ChatLine, new_line
from tavernkit.server.talks.talk import Ask, BuiltPrompt, TalkInput, TalkResult, model_request
from tavernkit.server.upstreams import Reply
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.values import JsonObject, LRUCache, is_mapping, is_object, is_sequence, thaw_object

NEUTRAL = "role"
"""A key that only neutral messages have: tool calls and their results, and what a client brings along."""


class SillyTavernTalk:
    """Builds prompts as SillyTavern does and keeps its chats."""

    def __init__(self, build_room: BuildRoom) -> None:
        self._build_room = build_room
        self._services = st.Builder().services
        self._builders: LRUCache[tuple[object, ...], st.Builder] = LRUCache(CACHED_BUILDERS)

    def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> list[ChatLine]:
        """The lines a new chat begins with."""
        lines: list[ChatLine] = []
        bundles = cast.members.values() if cast.group is not None else [cast.character]
        for bundle in bundles:
            if bundle is None:
                continue
            card = bundle.character
            greetings = card.all_greetings
            if not greetings or not greetings[min(index, len(greetings) - 1)]:
                continue
            environment = self._builder(cast).make_context(character=card)
            expanded = [self._expand(greeting, cast, user_name, environment.character_name) for greeting in greetings]
            chosen = min(index, len(expanded) - 1)
            message = st.ChatMessage(name=card.name, mes=expanded[chosen], send_date=_now())
            if len(expanded) > 1:
                message = message.replace(swipes=tuple(expanded), swipe_id=chosen)
            lines.append(new_line("assistant", message.mes, message.to_json()))
        return lines

    def user_line(self, text: str, *, user_name: str, extra: JsonObject | None = None) -> ChatLine:
        """A line of the user, as it is typed."""
        message = st.ChatMessage(name=user_name, mes=text, is_user=True, send_date=_now(), extra=extra or {})
        return new_line("user", text, message.to_json())

    def neutral_line(self, role: str, content: str, metadata: JsonObject) -> ChatLine:
        """A line that calls tools, or answers a call."""
        return new_line(role, content, {"role": role, "content": content, "metadata": metadata})

    async def build(self, given: TalkInput) -> BuiltPrompt:
        """Build the prompt of a turn."""
        plan = await self._build(given, _variables(given))
        return BuiltPrompt(plan=plan, request=_request(plan, given), speaker=_speaker(plan, given.cast))

    async def run(self, given: TalkInput, ask: Ask) -> TalkResult:
        """Build, ask the model, and say what the chat becomes."""
        variables = _variables(given)
        plan = await self._build(given, variables)
        reply = await ask(_request(plan, given))
        speaker = _speaker(plan, given.cast)
        lines, reply_id = _next_lines(given, plan, reply, speaker)
        stored = variables.to_dict()
        return TalkResult(
            reply=reply,
            text=reply.text,
            speaker=speaker,
            plan=plan,
            lines=lines,
            reply_id=reply_id,
            details={**given.details, "timedWorldInfo": thaw_object(plan.timed_world_info)},
            local_variables=stored.get("local", {}),
            global_variables=stored.get("global", {}),
            warnings=tuple(plan.warnings),
        )

    async def _build(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.ChatPlan:
        size = len(given.lines).bit_length()
        return await self._build_room.run((given.cast.key, size), lambda: self._plan(given, variables))

    def _plan(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.ChatPlan:
        builder = self._builder(given.cast)
        cast = given.cast
        inputs: dict[str, object] = {
            "chat_metadata": {**given.details, "variables": {}},
            "chat_id": given.chat_id,
            "variables": variables,
            "generation_type": given.kind,
            "response_length": given.response_length,
        }
        if cast.persona is None:
            inputs["user"] = User(name=given.user_name)
        if given.seed is not None:
            inputs["seed"] = given.seed
        if given.dialect is not None:
            inputs["dialect"] = given.dialect
        if given.speaker is not None:
            inputs["speaker"] = given.speaker
        history = list(given.lines)
        if given.kind == "normal":
            # A slash command would not be sent: here a client's text is a text.
            sent = history[-1] if history and history[-1].id == given.pending else None
            if sent is not None and not sent.content.lstrip().startswith("/") and sent.content:
                inputs["message"] = history.pop().content
            else:
                inputs["tool_recursion"] = 1
        inputs["history"] = [_message(line) for line in history]
        tools = given.options.get("tools")
        if tools or any(_is_about_tools(line) for line in history):
            preset = builder.make_context().active_preset
            inputs["preset"] = preset.replace(function_calling=True)
            inputs["tools"] = _tools(tools)
        return builder.build(**inputs)

    def _builder(self, cast: Cast) -> st.Builder:
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

    def _make_builder(self, cast: Cast) -> st.Builder:
        inputs: dict[str, object] = {
            "preset": cast.preset if isinstance(cast.preset, st.Preset) else st.Preset.default(),
            "books": cast.books,
            "character_books": cast.character_books,
            "persona_books": cast.persona_books,
            "use_embedded_book": not cast.character_books,
            "warning_handler": None,
        }
        if cast.character is not None:
            inputs["character"] = cast.character.character
        if cast.group is not None:
            inputs["group"] = cast.group
            inputs["members"] = {member: bundle.character for member, bundle in cast.members.items()}
        persona = cast.persona
        if persona is not None:
            inputs["user"] = User(name=persona.name, persona=persona.description)
            inputs["persona"] = st.Persona(persona.description, persona.position, persona.depth, persona.role)
        return st.Builder(services=self._services).replace(**inputs)

    def _expand(self, text: str, cast: Cast, user_name: str, character_name: str) -> str:
        name = cast.persona.name if cast.persona is not None else user_name
        environment = st.MacroEnvironment(
            user_name=name,
            character_name=character_name,
            persona=cast.persona.description if cast.persona is not None else "",
        )
        return self._services.macro_engine.expand(text, environment, warn=_quiet)


def _message(line: ChatLine) -> object:
    return dict(line.native) if NEUTRAL in line.native else st.ChatMessage.from_json(line.native)


def _is_about_tools(line: ChatLine) -> bool:
    metadata = line.native.get("metadata")
    return line.role == "tool" or (is_object(metadata) and bool(metadata.get("tool_calls")))


def _variables(given: TalkInput) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": given.local_variables, "global": given.global_variables})


def _tools(tools: object) -> list[st.Tool]:
    found: list[st.Tool] = []
    for each in tools if is_sequence(tools) else ():
        function = each.get("function") if is_object(each) else None
        if is_mapping(function) and isinstance(function.get("name"), str):
            parameters = function.get("parameters")
            found.append(
                st.Tool(
                    name=str(function["name"]),
                    description=str(function.get("description") or ""),
                    parameters=parameters if is_object(parameters) else {},
                )
            )
    return found


def _request(plan: st.ChatPlan, given: TalkInput) -> JsonObject:
    return model_request(plan.to_messages(), plan.llm_options, given.options)


def _speaker(plan: st.ChatPlan, cast: Cast) -> str:
    name = plan.llm_options.get("char_name")
    return name if isinstance(name, str) and name else cast.name


def _next_lines(given: TalkInput, plan: st.ChatPlan, reply: Reply, speaker: str) -> tuple[list[ChatLine], str | None]:
    lines = list(given.lines)
    if given.kind == "impersonate":
        return lines, None
    last = lines[-1] if lines else None
    if given.kind in ("swipe", "continue"):
        if last is None or last.role != "assistant" or NEUTRAL in last.native:
            raise ServiceError(409, f"there is no reply to {given.kind}", code="no_reply")
        message = st.ChatMessage.from_json(last.native)
        changed = _swiped(message, reply) if given.kind == "swipe" else _continued(message, reply)
        lines[-1] = dataclasses.replace(
            last, content=changed.mes, native=changed.to_json(), status=PARTIAL if reply.broken else COMPLETE
        )
        return lines, last.id
    if given.kind == "regenerate" and last is not None and last.role == "assistant":
        lines.pop()
    if given.pending is not None and lines and lines[-1].id == given.pending:
        lines[-1] = _as_sent(lines[-1], plan.chat)
    lines.append(_reply_line(reply, speaker))
    return lines, lines[-1].id


def _as_sent(line: ChatLine, chat: Sequence[st.ChatMessage]) -> ChatLine:
    """What the user wrote, with macros expanded and scripts run."""
    sent = chat[-1] if chat else None
    if sent is None or not sent.is_user or sent.mes == line.content:
        return line
    native = {**line.native, **sent.to_json()}
    return dataclasses.replace(line, content=sent.mes, native=native)


def _reply_line(reply: Reply, speaker: str) -> ChatLine:
    status = PARTIAL if reply.broken else COMPLETE
    if reply.tool_calls:
        content: JsonObject = {
            "role": "assistant",
            "content": reply.text,
            "metadata": {"tool_calls": list(reply.tool_calls)},
        }
        return new_line("assistant", reply.text, content, status=status)
    message = st.ChatMessage(name=speaker, mes=reply.text, send_date=_now(), extra=_extra(reply))
    return new_line("assistant", reply.text, message.to_json(), status=status)


def _extra(reply: Reply) -> JsonObject:
    extra: JsonObject = {}
    if reply.reasoning:
        extra["reasoning"] = reply.reasoning
    if reply.broken:
        extra["tavernkit"] = {"partial": reply.broken}
    return extra


def _swiped(message: st.ChatMessage, reply: Reply) -> st.ChatMessage:
    swipes = [*(message.swipes or (message.mes,)), reply.text]
    return message.replace(mes=reply.text, swipes=tuple(swipes), swipe_id=len(swipes) - 1, extra=_extra(reply))


def _continued(message: st.ChatMessage, reply: Reply) -> st.ChatMessage:
    text = message.mes + reply.text
    if message.swipes is not None and message.swipe_id is not None and message.swipe_id < len(message.swipes):
        swipes = [*message.swipes]
        swipes[message.swipe_id] = text
        message = message.replace(swipes=tuple(swipes))
    return message.replace(mes=text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quiet(_: str) -> None:
    """What a greeting's macros complain about is told by lint."""
