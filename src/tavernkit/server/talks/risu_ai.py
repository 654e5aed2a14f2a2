"""Chats in the way of RisuAI."""

from __future__ import annotations

import dataclasses

from tavernkit import risu_ai
from tavernkit.cards import User
from tavernkit.models import Reply, Request
from tavernkit.server.build_executor import BuildExecutor
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS
from tavernkit.server.storage.chats import PARTIAL, ChatLine
from tavernkit.server.swipes import with_text
from tavernkit.server.talks import risu_ai_groups as groups
from tavernkit.server.talks import risu_ai_lines as lines_of_chats
from tavernkit.server.talks.risu_ai_sending import ANY_MODEL, Sending, own_options, speaking
from tavernkit.server.talks.talk import Ask, BuiltPrompt, TalkInput, TalkResult, joined_reply, model_request
from tavernkit.silly_tavern import WorldBook
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.values import JsonObject, LRUCache

IMPERSONATION = "[Write the next message of {user}, in their own voice. Write nothing for {char}.]"
"""RisuAI has no prompt of its own for this: it is added behind everything else."""


MERGED_ROLES = "requiresAlternateRole"
"""RisuAI's flag of models whose messages of the same role are merged."""


NOBODY_SPEAKS = "nobody_speaks"
"""RisuAI's error for a group of which all are muted; here the user chooses who speaks then."""


class RisuTalk:
    """Builds prompts as RisuAI does, with its triggers and scripts, and keeps its chats."""

    user_line = staticmethod(lines_of_chats.user_line)
    reply_line = staticmethod(lines_of_chats.reply_line)
    neutral_line = staticmethod(lines_of_chats.neutral_line)

    def __init__(self, build_executor: BuildExecutor) -> None:
        self._build_executor = build_executor
        self._services = risu_ai.Builder().services
        self._builders: LRUCache[tuple[object, ...], risu_ai.Builder] = LRUCache(CACHED_BUILDERS)

    def greetings(self, cast: Cast) -> list[tuple[str, int]]:
        """How many greetings the character has; empty ones count, as RisuAI names them by their places."""
        card = cast.character.character if cast.character is not None else None
        return [(card.name, 1 + len(card.alternate_greetings))] if card is not None else []

    async def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> tuple[list[ChatLine], JsonObject]:
        """No lines, as RisuAI's greeting is part of the prompt: which one it is. The alternate ones count from 0."""
        del cast, user_name
        return [], {"fmIndex": index - 1}

    async def edited(
        self, line: ChatLine, content: str, cast: Cast, *, user_name: str, variables: JsonObject
    ) -> tuple[ChatLine, JsonObject]:
        """An edited message as it is typed: RisuAI's scripts run when it is sent or shown."""
        del cast, user_name
        native = {**with_text(line.native, content), "data": content}
        if "metadata" in line.native:
            native = {**line.native, "content": content}
        return dataclasses.replace(line, content=content, native=native), variables

    async def build(self, given: TalkInput) -> BuiltPrompt:
        """Build the prompt of a turn."""
        plan, request = await self._built(given, _variables(given))
        return BuiltPrompt(plan=plan, request=request, speaker=speaking(plan) if given.cast.group else given.cast.name)

    async def run(self, given: TalkInput, ask: Ask) -> TalkResult:
        """Do a whole send as RisuAI does: several requests, if it takes them."""
        variables = _variables(given)
        if given.kind == "impersonate":
            return await self._impersonated(given, ask, variables)
        builder = self._builder(given.cast)
        kept = _kept(given)
        inputs = _inputs(given, kept, variables)
        sending = Sending(given, ask, kept)
        result = await sending.run(builder, lambda: builder.make_context(**inputs), self._build_executor, _kind(given))
        if result is None:
            assert sending.calling is not None
            line = lines_of_chats.calling_line(sending.replies[-1])
            lines = [*lines_of_chats.lines_of(sending.calling.chat, given, kept), line]
            return _result(given, variables, sending, sending.calling.chat, sending.calling, lines, line.id)
        if result.error is not None and result.error.code != NOBODY_SPEAKS and not sending.replies:
            if result.error.cause is not None:
                raise result.error.cause
            raise ServiceError(400, result.error.message, code=result.error.code.lower())
        # Of a group's round, a member's reply is whole though the next one's failed.
        interrupted = sending.replies[-1].interrupted if sending.in_round and sending.replies else _interrupted(sending)
        lines, reply_id = _next_lines(given, kept, result.chat, interrupted=interrupted)
        plan = result.plans[-1] if result.plans else None
        made = _result(given, variables, sending, result.chat, plan, lines, reply_id)
        made = dataclasses.replace(made, warnings=tuple(result.warnings))
        return _of_group(made, given, kept, sending) if given.cast.group is not None else made

    async def _impersonated(self, given: TalkInput, ask: Ask, variables: InMemoryVariablesStore) -> TalkResult:
        """Let the model write for the user; the chat stays as it is."""
        plan, request = await self._built(given, variables)
        reply = await ask(request)
        return TalkResult(
            reply=reply,
            text=reply.text,
            speaker=given.cast.name,
            plan=plan,
            lines=given.lines,
            reply_id=None,
            details=given.details,
            local_variables=given.local_variables,
            global_variables=given.global_variables,
            warnings=tuple(plan.warnings),
        )

    async def _built(self, given: TalkInput, variables: InMemoryVariablesStore) -> tuple[risu_ai.RisuPlan, Request]:
        builder, kept = self._builder(given.cast), _kept(given)
        inputs = _inputs(given, kept, variables)
        if given.cast.group is not None and inputs.get("speaker") is None:
            inputs["speaker"] = groups.first_speaker(builder.make_context(**inputs))
        plan = await self._build_executor.run(_kind(given), lambda: builder.build(**inputs))
        posted = plan.posted_messages(warn=_quiet)
        messages = [*lines_of_chats.system_messages(kept), *posted, *lines_of_chats.open_exchange(kept)]
        if given.kind == "impersonate":
            persona = given.cast.persona
            user = persona.name if persona is not None else given.user_name
            messages.append({"role": "system", "content": IMPERSONATION.format(user=user, char=given.cast.name)})
        return plan, model_request(messages, own_options(plan.llm_options), given)

    def _builder(self, cast: Cast) -> risu_ai.Builder:
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

    def _make_builder(self, cast: Cast) -> risu_ai.Builder:
        modules = tuple(module for module in cast.modules if isinstance(module, risu_ai.RisuModule))
        preset = (
            cast.preset if isinstance(cast.preset, risu_ai.Preset) else risu_ai.Preset().replace(ai_model=ANY_MODEL)
        )
        # All modules are known; the character and the chat say which of them are on.
        settings = risu_ai.Settings().replace(modules=modules, request_retries=0)  # upstreams retry by themselves
        if MERGED_ROLES in settings.flags_of(preset.ai_model):
            # Start lines are left out of OpenAI's requests with all that is merged with them, the user's words too.
            settings = settings.replace(new_openai_handle=False)
        inputs: risu_ai.RisuAIInputs = {
            "warn": None,
            "character": cast.character if cast.group is None else groups.group_of(cast),
            "members": groups.members_of(cast),
            "preset": preset,
            "settings": settings,
            "modules": [_module(number, book) for number, book in enumerate(cast.books)],
        }
        if cast.persona is not None:
            inputs["user"] = User(name=cast.persona.name, persona=cast.persona.description)
        return risu_ai.Builder(services=self._services, **inputs)


def _module(number: int, book: WorldBook) -> risu_ai.RisuModule:
    """A book as RisuAI takes lore from elsewhere: a module that has nothing but lore."""
    entries = risu_ai.import_lorebook(book.to_json(), warn=_quiet)
    return risu_ai.RisuModule.from_json(
        {"id": f"tavernkit-book-{number}", "name": book.name or "", "lorebook": entries}
    )


def _kind(given: TalkInput) -> tuple[object, ...]:
    return (given.cast.key, len(given.lines).bit_length())


def _kept(given: TalkInput) -> list[ChatLine]:
    """The lines that stay: a reply that is swiped or regenerated goes."""
    lines = list(given.lines)
    if given.kind in ("swipe", "regenerate", "continue"):
        if not lines or lines[-1].role != "assistant" or lines_of_chats.NEUTRAL in lines[-1].native:
            raise ServiceError(409, f"there is no reply to {given.kind}", code="no_reply")
        if given.kind == "regenerate" and given.cast.group is not None:
            return groups.without_last_round(lines)
        if given.kind != "continue":
            lines.pop()
    return lines


def _inputs(given: TalkInput, kept: list[ChatLine], variables: InMemoryVariablesStore) -> risu_ai.RisuAIInputs:
    lines = lines_of_chats.own_lines(kept)
    inputs: risu_ai.RisuAIInputs = {
        "variables": variables,
        "generation_type": "continue" if given.kind == "continue" else "normal",
    }
    if lines and lines[-1].id == given.pending:
        inputs["message"] = lines.pop().content
    inputs["history"] = {**given.details, "id": given.chat_id, "message": [line.native for line in lines]}
    preset = given.cast.preset if isinstance(given.cast.preset, risu_ai.Preset) else None
    size = given.context_size(preset.max_context if preset is not None else None)
    if preset is None:
        inputs["preset"] = risu_ai.Preset().replace(ai_model=ANY_MODEL, max_context=size)
    elif size != preset.max_context:
        inputs["preset"] = preset.replace(max_context=size)
    if inlays := lines_of_chats.inlays_of(kept):
        inputs["inlays"] = inlays
    if given.cast.persona is None:
        inputs["user"] = User(name=given.user_name)
    if given.seed is not None:
        inputs["seed"] = given.seed
    if given.cast.group is not None:
        inputs["speaker"] = groups.chosen_speaker(given)
    return inputs


def _next_lines(
    given: TalkInput, kept: list[ChatLine], chat: risu_ai.RisuChat, *, interrupted: str
) -> tuple[list[ChatLine], str | None]:
    lines = lines_of_chats.lines_of(chat, given, kept)
    last = lines[-1] if lines and lines[-1].role == "assistant" else None
    if last is None:
        return lines, None
    if interrupted:
        last = dataclasses.replace(last, status=PARTIAL)
    if given.kind == "continue":
        last = lines_of_chats.continued(given.lines[-1], last)
    if given.kind == "swipe":
        last = lines_of_chats.swiped(given.lines[-1], last)
    return [*lines[:-1], last], last.id


def _result(
    given: TalkInput,
    variables: InMemoryVariablesStore,
    sending: Sending,
    chat: risu_ai.RisuChat,
    plan: risu_ai.RisuPlan | None,
    lines: list[ChatLine],
    reply_id: str | None,
) -> TalkResult:
    reply = sending.replies[-1] if sending.replies else Reply(finish_reason="stop")
    reply = dataclasses.replace(reply, interrupted=_interrupted(sending))
    spoken = next((line.content for line in lines if line.id == reply_id), None)
    if sending.send is not None:
        sending.send.variables.changes().apply(variables)
    stored = variables.to_dict()
    return TalkResult(
        reply=reply,
        text=spoken if spoken is not None and given.kind != "continue" else reply.text,
        speaker=given.cast.name,
        plan=plan,
        lines=lines,
        reply_id=reply_id,
        details=lines_of_chats.details_of(chat),
        local_variables=stored.get("local", {}),
        global_variables=stored.get("global", {}),
        warnings=tuple(plan.warnings) if plan is not None else (),
    )


def _of_group(made: TalkResult, given: TalkInput, kept: list[ChatLine], sending: Sending) -> TalkResult:
    """A turn of a group: who said what, and all of it in one."""
    lines = groups.with_speakers(made.lines, given.cast)
    if not sending.in_round:
        last = next((line for line in lines if line.id == made.reply_id), None)
        speaker = str(last.native.get(groups.SPEAKER) or made.speaker) if last is not None else made.speaker
        return dataclasses.replace(made, lines=lines, speaker=speaker)
    spoken = groups.spoken_since(lines, kept, sending.replies)
    reply = joined_reply(spoken, named=True, interrupted=_interrupted(sending))
    speaker = spoken[-1].speaker if spoken else made.speaker
    return dataclasses.replace(made, lines=lines, speaker=speaker, reply=reply, text=reply.text, spoken=tuple(spoken))


def _interrupted(sending: Sending) -> str:
    return sending.interrupted or (sending.replies[-1].interrupted if sending.replies else "")


def _variables(given: TalkInput) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": given.local_variables, "global": given.global_variables})


def _quiet(_: str) -> None:
    """Warnings of a build are in its plan."""
