"""RisuAI chats: for a turn, stored lines become a ``tavernkit.risu_ai.Chat``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from tavernkit import risu_ai
from tavernkit._turns import OnPiece, Turn, TurnKind
from tavernkit._values import JsonObject, LRUCache
from tavernkit.cards import User
from tavernkit.errors import TavernKitError
from tavernkit.models import ModelError, Reply, ReplyPiece, Request
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai import HostRefusedError, RefusingHost
from tavernkit.risu_ai._files.kept_fields import kept_character, lore_module, make_group
from tavernkit.risu_ai._files.settings import with_newest_summaries
from tavernkit.risu_ai._triggers.host import AlertKind
from tavernkit.server.adapters import risu_ai_lines as lines_of_chats
from tavernkit.server.adapters.turn import (
    OUTSIDE_CHAT,
    Ask,
    BuiltPrompt,
    ChangedByFailure,
    Spoken,
    TurnHost,
    TurnInput,
    TurnResult,
    ask_nobody,
    calling_line,
    is_command,
    model_request,
    refuse_without_reply,
)
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS, MAX_ALERTS, MAX_HELPER_REQUESTS
from tavernkit.server.storage.lines import PARTIAL, ChatLine
from tavernkit.server.turns.scheduling import BuildExecutor
from tavernkit.server.upstreams.listeners import ClientDisconnectedError
from tavernkit.stores import InMemoryVariablesStore

T = TypeVar("T")

ANY_MODEL = "openrouter"
"""RisuAI's name for an unknown OpenAI-compatible model, for chats without a preset."""
MERGED_ROLES = "requiresAlternateRole"
"""RisuAI's flag of models whose messages of the same role are merged."""
NOBODY_SPEAKS, TRIGGER_FAILED = "nobody_speaks", "trigger_failed"
"""RisuAI's errors for a group in which all members are muted (here the user chooses the speaker), and for a trigger."""


class RisuAdapter:
    """Builds prompts as RisuAI does, with its triggers and scripts, and keeps its chats."""

    user_line = staticmethod(lines_of_chats.user_line)
    reply_line = staticmethod(lines_of_chats.reply_line)

    def __init__(self, build_executor: BuildExecutor) -> None:
        self._build_executor = build_executor
        self._services = risu_ai.Builder().services
        self._builders: LRUCache[tuple[object, ...], _Made] = LRUCache(CACHED_BUILDERS)

    def greetings(self, cast: Cast) -> list[tuple[str, int]]:
        """Return the number of greetings; empty ones count, because RisuAI refers to them by index."""
        card = cast.character.character if cast.character is not None else None
        return [(card.name, 1 + len(card.alternate_greetings))] if card is not None else []

    async def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> tuple[list[ChatLine], JsonObject]:
        """Return no lines, because RisuAI's greeting is part of the prompt, and the greeting's number."""
        del cast, user_name
        return [], {lines_of_chats.GREETING: index - 1}

    async def build(self, given: TurnInput) -> BuiltPrompt:
        """Build the prompt of a turn, in a group that of its first speaker."""
        given = lines_of_chats.with_taken_back(given)
        host = _Host(given, ask_nobody)
        chat, sent = self._opened(host)
        speaker = lines_of_chats.chosen_speaker(given)
        kind: TurnKind = "send" if given.kind in ("normal", "trigger", "button") else given.kind

        def preview() -> risu_ai.RisuPlan:
            try:
                return chat.preview(given.prompt or sent, kind=kind, speaker=speaker)
            except risu_ai.PromptTemplateError:
                if given.cast.group is None or speaker is not None:
                    raise
                return chat.preview(
                    sent, kind=kind, speaker=next(iter(lines_of_chats.ids_of(given.cast).values()), None)
                )

        plan = await self._build_executor.run(given.size, preview)
        return BuiltPrompt(
            plan=plan, request=host.request(plan), speaker=_speaker(plan) if given.cast.group else given.cast.name
        )

    async def run(self, given: TurnInput, ask: Ask) -> TurnResult:
        """Run a whole send as RisuAI does, possibly with several requests."""
        given = lines_of_chats.with_taken_back(given)
        host = _Host(given, ask)
        chat, sent = self._opened(host)
        interrupted = ""
        try:
            turn = await _operate(chat, given, sent)
        except (TavernKitError, ClientDisconnectedError) as error:
            if not host.exchanges and not _nobody_speaks(chat):
                raise _failure(_as_service_error(error, chat), given, chat) from error
            # Earlier replies are kept, although RisuAI would have continued.
            interrupted = "" if _nobody_speaks(chat) else str(error) or type(error).__name__
            turn = Turn(kind="send", exchanges=tuple(host.exchanges))
        return _result(given, host, chat, turn, interrupted)

    def _opened(self, host: _Host) -> tuple[risu_ai.Chat, str]:
        """Return the chat before the user's last message, and that message."""
        given = host.given
        lines = lines_of_chats.own_lines(given.lines)
        refuse_without_reply(given, "swipe", "regenerate", "continue")
        sent = lines.pop().content if lines and lines[-1].id == given.pending else ""
        key = (given.cast.key, given.memory)
        made = self._builders.get_or_make(key, lambda: self._make_builder(given.cast, memory=given.memory))

        async def work(function: Callable[[], T], /) -> T:
            return await self._build_executor.run(given.size, function)

        chat = risu_ai.Chat(
            host=host,
            builder=made.builder,
            run_tools=False,
            work=None if made.may_ask else work,
            session=("session", given.chat_id, given.cast.key),
            **_inputs(given, lines, host.dialogs),
        )
        return chat, sent

    def _make_builder(self, cast: Cast, *, memory: bool) -> _Made:
        modules = tuple(module for module in cast.modules if isinstance(module, risu_ai.RisuModule))
        preset = _preset(cast)
        # All modules are available; the character and the chat decide which are active.
        settings = risu_ai.Settings.from_json(cast.database, warn=_ignore)
        settings = settings.replace(modules=modules, request_retries=0)  # upstreams do their own retries
        if MERGED_ROLES in settings.flags_of(preset.ai_model):
            # Start lines, and everything merged with them, are left out of OpenAI's requests, even the user's message.
            settings = settings.replace(new_openai_handle=False)
        inputs: risu_ai.RisuAIInputs = {
            "warn": None,
            "character": _owner_of(cast),
            "members": _members_of(cast),
            "preset": preset,
            "settings": settings,
            "modules": [
                lore_module(f"tavernkit-book-{number}", book.name or "", book.to_json(), warn=_ignore)
                for number, book in enumerate(cast.books)
            ],
        }
        if cast.persona is not None:
            inputs["user"] = User(name=cast.persona.name, persona=cast.persona.description)
        builder = risu_ai.Builder(services=self._services, **inputs)
        context = builder.make_context()
        if memory:
            owner = dataclasses.replace(context.owner, raw={**context.owner.raw, "supaMemory": True})
            inputs = {"character": owner, "settings": with_newest_summaries(settings), "memory": risu_ai.MemoryModels()}
            builder = builder.replace(**inputs)
        cards = (context.owner, *context.members)
        triggers = any(each.raw.get("triggerscript") for each in cards) or any(
            each.raw.get("trigger") for each in modules
        )
        return _Made(builder, may_ask=memory or triggers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Made:
    """The builder of a cast."""

    builder: risu_ai.Builder
    may_ask: bool
    """True if triggers or memory may ask a model during a build."""


def _owner_of(cast: Cast) -> risu_ai.RisuCharacter | None:
    """Return the character or the group of a cast as RisuAI has it."""
    group, ids = cast.group, lines_of_chats.ids_of(cast)
    if group is None:
        return kept_character(cast.character) if cast.character is not None else None
    muted = group.disabled_members if group.activation_strategy not in ("manual", None) else cast.members
    talks = {ids[each]: bundle.character.extensions.get("talkativeness") for each, bundle in cast.members.items()}
    return make_group(
        group.name,
        talks,
        group_id=cast.selection.group or "",
        muted=[ids[member] for member in muted if member in ids],
        in_order=group.activation_strategy == "list",
        own=group.source,
    )


def _members_of(cast: Cast) -> list[risu_ai.RisuCharacter]:
    """Return the members of a cast's group."""
    ids = lines_of_chats.ids_of(cast)
    return [kept_character(bundle, chaId=ids[member]) for member, bundle in cast.members.items()]


async def _operate(chat: risu_ai.Chat, given: TurnInput, sent: str) -> Turn:
    speaker = lines_of_chats.chosen_speaker(given)
    match given.kind:
        case "regenerate":
            return await chat.regenerate()
        case "swipe" if speaker is not None:  # RisuAI has a whole round again; here the last reply gets another
            if chat.chat.messages:
                chat.delete(-1)
            return await chat.speak(speaker)
        case "swipe":
            return await chat.swipe("right")
        case "continue":
            return await chat.continue_reply(sent, speaker=speaker)
        case "impersonate":
            return await chat.impersonate()
        case "quiet":
            return await chat.quiet(given.prompt)
        case "trigger":
            await chat.run_trigger(given.prompt, trigger_id=given.element or None)
            return Turn(kind="send")
        case "button":
            await chat.click(given.prompt)
            return Turn(kind="send")
        case "normal" if sent:
            return await chat.send(sent, speaker=speaker, commands=given.commands)
        case "normal" if given.empty:
            return await chat.send("", speaker=speaker)
        case "normal" if speaker is not None:
            return await chat.speak(speaker)
        case "normal":
            return await chat.generate()


class _Host(TurnHost):
    """Asks for chats of RisuAI."""

    _helpers = 0
    _speaker: str | None = None

    def __init__(self, given: TurnInput, ask: Ask) -> None:
        super().__init__(given, ask)
        self.dialogs = Dialogs(given.answers)

    def request(self, plan: Plan) -> Request:
        """Return the request of a prompt; the client's options override the preset's."""
        assert isinstance(plan, risu_ai.RisuPlan)
        given = self.given
        own = {key: value for key, value in plan.llm_options.items() if key != "model" or given.cast.preset is not None}
        marked = plan.marked_for(given.dialect)
        posted = plan.posted_messages(warn=_ignore) if marked is plan else marked.messages
        if plan.is_helper:  # the client's options apply to the chat only
            return model_request(posted, own, dataclasses.replace(given, lines=(), options={}))
        before, behind = lines_of_chats.system_messages(given.lines), lines_of_chats.open_exchange(given.lines)
        return model_request([*before, *posted, *behind], own, given)

    def announced(self, plan: Plan) -> str | None:
        """Return the speaker of a round, if it is another than before."""
        before, self._speaker = self._speaker, _speaker(plan) if lines_of_chats.is_round(self.given) else None
        return self._speaker if self._speaker != before else None

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        """Ask the model; the reply is streamed to the client, except for requests outside the chat."""
        assert isinstance(plan, risu_ai.RisuPlan)
        if self.exchanges and self.exchanges[-1].reply.interrupted:
            raise ModelError(self.exchanges[-1].reply.interrupted)  # nothing else follows
        if not plan.is_helper:
            heard: list[str] = []
            reply = await self.ask_for_chat(plan, heard)
            if on_piece is not None and not reply.tool_calls:
                for text in heard:
                    on_piece(ReplyPiece(text=text))
            return reply
        self._helpers += 1
        if self._helpers > MAX_HELPER_REQUESTS:
            raise ModelError(f"a turn may send at most {MAX_HELPER_REQUESTS} requests besides those of the chat")
        return await self._ask(self.request(plan), quiet=True)


class Dialogs(RefusingHost):
    """Collects what triggers show the user, and answers their questions with what the client has sent along."""

    def __init__(self, answers: Sequence[str]) -> None:
        self.shown: list[JsonObject] = []
        self._answers = list(answers)

    def alert(self, kind: AlertKind, text: str) -> None:
        """Keep a text for the client."""
        self._show(kind, text)

    def ask(self, text: str) -> str:
        """Return the next answer."""
        self._show("input", text)
        return self._answer()

    def select(self, options: Sequence[str], title: str | None) -> str:
        """Return the next answer, which is the number of an option."""
        self._show("select", title or "", options)
        return self._answer()

    def confirm(self, text: str) -> bool:
        """Return True if the next answer is ``yes``."""
        self._show("confirm", text)
        return self._answer() == "yes"

    def _show(self, kind: str, text: str, options: Sequence[str] = ()) -> None:
        if len(self.shown) >= MAX_ALERTS:
            raise HostRefusedError(f"to show more than {MAX_ALERTS} messages")
        self.shown.append({"kind": kind, "text": text, "options": [*options]})

    def _answer(self) -> str:
        if not self._answers:
            raise HostRefusedError("to ask the user: the client has sent no answer")
        return self._answers.pop(0)


def _inputs(given: TurnInput, lines: Sequence[ChatLine], dialogs: Dialogs) -> risu_ai.RisuAIInputs:
    preset = _preset(given.cast)
    size = given.context_size(preset.max_context if preset is given.cast.preset else None)
    inputs: risu_ai.RisuAIInputs = {
        "variables": InMemoryVariablesStore({"local": given.local_variables, "global": given.global_variables}),
        "history": lines_of_chats.chat_of(given, lines),
        "inlays": lines_of_chats.inlays_of(given.lines),
        "limits": given.limits,
        "quirks": given.quirks,
        "trigger_host": dialogs,
        "say_nothing": _says_nothing(given),
        "strategy": given.caching.strategy,
        "lore": given.caching.lore,
        "volatile": given.caching.volatile,
        "cache_profile": given.caching.profile,
    }
    if size != preset.max_context:
        inputs["preset"] = preset.replace(max_context=size)
    if given.cast.persona is None:
        inputs["user"] = User(name=given.user_name)
    if given.seed is not None:
        inputs["seed"] = given.seed
    return inputs


def _says_nothing(given: TurnInput) -> bool:
    """Return True if RisuAI writes something for a user who says nothing."""
    return (given.empty or given.kind == "continue") and bool(given.cast.database.get("useSayNothing", True))


def _preset(cast: Cast) -> risu_ai.Preset:
    chosen = cast.preset
    return chosen if isinstance(chosen, risu_ai.Preset) else risu_ai.Preset().replace(ai_model=ANY_MODEL)


def _result(given: TurnInput, host: _Host, chat: risu_ai.Chat, turn: Turn, interrupted: str) -> TurnResult:
    """Return everything that is stored together."""
    replies = [each.reply for each in host.exchanges]
    last = replies[-1] if replies else Reply(finish_reason="stop")
    lines: Sequence[ChatLine] = lines_of_chats.lines_of(chat.chat, given)
    shown: ChatLine | None = None
    if given.kind in OUTSIDE_CHAT:
        lines = given.lines
    elif last.tool_calls:
        lines = [*lines, shown := calling_line(last, last.text)]
    else:
        lines, shown = _with_reply(given, lines, partial=bool(last.interrupted))
    if given.cast.group is not None and given.kind not in OUTSIDE_CHAT:
        lines = lines_of_chats.with_speakers(lines, given.cast)
    if round_of_replies := lines_of_chats.is_round(given) and not last.tool_calls:
        spoken = lines_of_chats.spoken_since(lines, given.lines, replies)
    else:
        speaker = next(
            (lines_of_chats.speaker_of(line) for line in reversed(lines) if shown and line.id == shown.id), ""
        )
        text = last.text if shown is None or given.kind == "continue" else shown.content
        line_id = shown.id if shown is not None else None
        reply = dataclasses.replace(last, text=text)
        spoken = [Spoken(speaker=speaker or given.cast.name, reply=reply, line_id=line_id)]
    return TurnResult(
        name=given.cast.name,
        spoken=spoken,
        named=round_of_replies,
        interrupted=interrupted,
        plan=turn.plan if not host.exchanges else host.exchanges[-1].plan,
        lines=lines,
        details=lines_of_chats.details_after(given, chat.chat, lines),
        variables=chat.variables.to_dict(),
        warnings=chat.warnings,
        notes=[f"RisuAI has no {name}: it was left out" for name in given.quiet],
        alerts=host.dialogs.shown,
    )


def _with_reply(
    given: TurnInput, lines: Sequence[ChatLine], *, partial: bool
) -> tuple[Sequence[ChatLine], ChatLine | None]:
    """Return the lines with the reply as it is stored (as a swipe, or joined with what it continues), and its line."""
    last = lines[-1] if lines and lines[-1].role == "assistant" else None
    if last is None or (given.kind != "continue" and last.id in map(attrgetter("id"), given.lines)):
        return lines, None
    if partial:
        last = dataclasses.replace(last, status=PARTIAL)
    before = given.lines[-1] if given.lines else last
    if given.kind == "continue" and given.pending is None and all(line.id != before.id for line in lines[:-1]):
        last = lines_of_chats.continued(before, last)
    if given.kind == "swipe":
        last = lines_of_chats.swiped(before, last)
    return [*lines[:-1], last], last


def _speaker(plan: Plan) -> str:
    assert isinstance(plan, risu_ai.RisuPlan)
    return plan.text_rules.character_name


def _nobody_speaks(chat: risu_ai.Chat) -> bool:
    return chat.error is not None and chat.error.code == NOBODY_SPEAKS


def _failure(error: Exception, given: TurnInput, chat: risu_ai.Chat) -> Exception:
    """Return the error of a turn without a reply, with the chat if RisuAI changes it all the same."""
    lines = lines_of_chats.lines_of(chat.chat, given)
    failed_trigger = chat.error is not None and chat.error.code == TRIGGER_FAILED
    lost = failed_trigger and given.pending is not None and all(line.id != given.pending for line in lines)
    if not lost and not is_command(given) and not (given.kind == "swipe" and given.quirks):
        return error
    details = lines_of_chats.details_after(given, chat.chat, lines)
    return ChangedByFailure(error, lines=lines, details=details, variables=chat.variables.to_dict().get("local", {}))


def _as_service_error(error: Exception, chat: risu_ai.Chat) -> Exception:
    if isinstance(error, risu_ai.RequestFailedError) and chat.error is not None:
        return ServiceError(400, chat.error.message, code=chat.error.code.lower())
    return error


def _ignore(_: str) -> None:
    """Ignore a warning: warnings of a build are in its plan."""
