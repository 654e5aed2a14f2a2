"""SillyTavern chats: for a turn, stored lines become a ``tavernkit.silly_tavern.Chat``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from tavernkit import silly_tavern as st
from tavernkit._dataclass import replaced
from tavernkit._turns import Exchange, Turn
from tavernkit._values import JsonObject, is_object
from tavernkit.errors import TavernKitError
from tavernkit.models import Reply, Request
from tavernkit.models._reply import join_replies
from tavernkit.prompt._plan import Plan
from tavernkit.server.adapters import silly_tavern_lines as lines_of_chats
from tavernkit.server.adapters.silly_tavern_builds import Builds, pending_line, typed_line
from tavernkit.server.adapters.silly_tavern_lines import RUN, earlier_messages, lines_after, numbered, run_of, unchanged
from tavernkit.server.adapters.turn import (
    NEUTRAL,
    OUTSIDE_CHAT,
    Ask,
    BuiltPrompt,
    ChangedByFailure,
    LineChange,
    PlanMade,
    Spoken,
    TurnHost,
    TurnInput,
    TurnResult,
    ask_nobody,
    calling_line,
    is_command,
    refuse_without_reply,
    with_parts,
)
from tavernkit.server.adapters.vectors import BlockingEmbedder, Vectors, searching
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Cast
from tavernkit.server.storage.lines import ChatLine, new_line
from tavernkit.server.turns.scheduling import BuildExecutor
from tavernkit.server.upstreams.listeners import ClientDisconnectedError
from tavernkit.silly_tavern._conversation.chat_state import ChatState
from tavernkit.silly_tavern._conversation.commands import is_known
from tavernkit.silly_tavern._conversation.numbered_lines import NumberedLines, moved

T = TypeVar("T")
EPHEMERAL = "tavernkit_ephemeral_injects"
"""The key in a chat of the injects that the next reply removes: SillyTavern does not store which ones they are."""
_HIDDEN: JsonObject = {"is_user": True, "is_system": True, "mes": ""}
"""Stands for messages that do not matter for a change of another."""


class SillyTavernAdapter:
    """Builds prompts as SillyTavern does and keeps its chats."""

    user_line = staticmethod(lines_of_chats.user_line)

    def __init__(
        self,
        build_executor: BuildExecutor,
        vectors: Vectors,
        *,
        clean_up: bool = True,
        tokenizers: st.TokenizerFiles | None = None,
    ) -> None:
        self._build_executor = build_executor
        self._vectors = vectors
        self._clean_up = clean_up
        self._builds = Builds(tokenizers)

    def greetings(self, cast: Cast) -> list[tuple[str, int]]:
        """Return who may begin a chat, and how many greetings each has."""
        cards = [bundle.character for bundle in cast.members.values()]
        if cast.group is None and cast.character is not None:
            cards = [cast.character.character]
        return [(card.name, len(card.all_greetings)) for card in cards]

    async def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> tuple[list[ChatLine], JsonObject]:
        """Return the first lines and the header of a new chat; without greetings it is empty."""
        host = _Host(TurnInput(cast=cast, chat_id="", lines=(), user_name=user_name), ask_nobody)
        chat = self._chat(host, [])
        await self._build_executor.run((cast.key, "greeting"), lambda: chat.open(greeting=index))
        lines = [new_line("assistant", str(line.get("mes") or ""), line) for line in chat.lines]
        return lines, chat.metadata

    async def changed(self, given: TurnInput, change: LineChange) -> tuple[ChatLine, JsonObject, JsonObject]:
        """Return the pending message after a change, and the details and variables of the chat.

        Args:
            given: The chat.
            change: The change.
        """
        at = next(at for at, line in enumerate(given.lines) if line.id == given.pending)
        before = given.lines[at]
        lines = [_HIDDEN if NEUTRAL in line.native else line.native for line in given.lines]
        if change.swipe is not None and at < len(lines) - 1:  # a chat shows swipes of its last message
            lines, at = [_HIDDEN, before.native], 1
        chat = self._chat(_Host(given, ask_nobody), lines)

        def operate() -> None:
            if change.content is not None:
                chat.edit(at, change.content)
            if change.swipe is not None:
                chat.show_swipe(change.swipe)
            if change.removed_swipe is not None:
                chat.delete_swipe(change.removed_swipe, at)
            if change.hidden is not None:
                (chat.hide if change.hidden else chat.unhide)(at)

        await self._build_executor.run((given.cast.key, "change"), operate)
        native = chat.lines[at]
        line = replaced(before, content=str(native.get("mes") or ""), native=native)
        details = moved(_details_of(chat), given.unread)
        if RUN in given.details:
            details = {**details, RUN: given.details[RUN]}
        return line, details, chat.variables.to_dict().get("local", {})

    async def build(self, given: TurnInput) -> BuiltPrompt:
        """Build the prompt of a turn, in a group that of its first speaker."""
        host = _Host(given, ask_nobody)
        _, chat = self._opened(host)
        try:
            await _operate(chat, given)
            plan: Plan = await chat.state.work(lambda: chat.state.build("normal"))  # it is nobody's turn
        except PlanMade as made:
            plan = made.plan
        speaker = _speaker(plan, given.cast)
        return BuiltPrompt(plan=plan, request=host.request(plan), speaker=speaker, warnings=host.notes)

    async def run(self, given: TurnInput, ask: Ask) -> TurnResult:
        """Run a turn; in a group, every member whose turn it is replies."""
        refuse_without_reply(given, "swipe")
        if not given.lines or NEUTRAL in given.lines[-1].native:
            refuse_without_reply(given, "continue")
        host = _Host(given, ask)
        stored, chat = self._opened(host)
        host.state = chat.state
        begun = str(chat.lines[-1].get("mes") or "") if chat.lines else ""
        interrupted = ""
        try:
            turn = await _operate(chat, given)
        except (TavernKitError, ClientDisconnectedError) as error:
            if not host.exchanges:
                if not is_command(given):
                    raise
                # It is not kept as a message.
                lines = [line for line in given.lines if line.id != given.pending]
                raise ChangedByFailure(
                    error, lines=lines, details=given.details, variables=given.local_variables
                ) from error
            # Earlier replies are kept, and the round ends here.
            interrupted = str(error) or type(error).__name__
            turn = Turn(kind="send", exchanges=tuple(host.exchanges))
        return _result(given, host, stored, chat, turn, begun, interrupted)

    def _opened(self, host: _Host) -> tuple[NumberedLines, st.Chat]:
        """Return the chat before the user's last message, with which a turn begins, and its lines."""
        given = host.given
        lines = list(given.lines)
        if pending_line(given) is not None and given.kind in ("normal", "continue"):
            lines.pop()
        # Commands name lines by their numbers.
        cut = 0 if is_command(given) else unchanged(lines, in_group=given.cast.group is not None)
        stored = numbered(lines[cut:])
        chat = self._chat(host, () if stored.copies else stored.lines, cut)
        if stored.copies:
            chat.state.take_lines(stored.lines, stored.copies, stored.messages)
        chat.state.before = earlier_messages(lines[:cut])
        if "summary" not in run_of(given.details):
            chat.state.find_summary()
        return stored, chat

    def _chat(self, host: _Host, lines: Sequence[JsonObject], cut: int = 0) -> st.Chat:
        given = host.given

        async def work(function: Callable[[], T], /) -> T:
            if given.embed is not None:
                return await self._build_executor.run_waiting(function)
            return await self._build_executor.run(given.size, function)

        chat = st.Chat(
            host,
            builder=self._builds.builder_of_turn(given, cut),
            user_avatar=given.cast.user_avatar,
            run_tools=False,
            clean_up=self._clean_up,
            work=work,
            search=self._search(host),
        )
        variables: JsonObject = {"variables": given.local_variables} if given.local_variables else {}
        details = {key: value for key, value in given.details.items() if key not in (RUN, EPHEMERAL)}
        chat.restore(
            {
                **run_of(given.details),
                "chat_id": given.chat_id,
                "chat_metadata": {**moved(details, -given.unread), **variables},
                "lines": list(lines),
                "global_variables": given.global_variables,
                "ephemeral_injects": given.details.get(EPHEMERAL),
            }
        )
        return chat

    def _search(self, host: _Host) -> Callable[[st.ChatPlan], st.VectorResults] | None:
        """Return the Vector Storage search of this turn."""
        given, folder = host.given, host.given.cast.folder
        if given.embed is None or folder is None:
            return None
        embedder = BlockingEmbedder(given.embed, asyncio.get_running_loop())
        chat = given.chat_id if given.stored else None
        return searching(self._vectors, embedder, host.notes, chat=chat, folder=folder.id)


async def _operate(chat: st.Chat, given: TurnInput) -> Turn:
    match given.kind:
        case "regenerate":
            return await chat.regenerate()
        case "swipe":
            return await chat.new_swipe()
        case "continue":
            sent = pending_line(given)
            if sent is not None and typed_line(given) is not None:
                return await chat.continue_reply(sent.content)
            if sent is not None:
                await chat.state.work(lambda: chat.add_message(sent.content, **lines_of_chats.added_keys(sent)))
            return await chat.continue_reply()
        case "impersonate":
            return await chat.impersonate()
        case "quiet":
            return await chat.quiet(given.prompt, **_quiet_options(given))
        case "trigger" | "button":
            raise ServiceError(422, "only RisuAI's characters have triggers and buttons", code="no_triggers")
        case "normal":
            sent = pending_line(given)
            if sent is not None and is_command(given):
                return await chat.run_command(sent.content)
            if sent is not None and typed_line(given) is not None:
                return await chat.send(sent.content, speaker=_chosen_speaker(given))
            if sent is not None:
                await chat.state.work(lambda: chat.add_message(sent.content, **lines_of_chats.added_keys(sent)))
            elif not _answers_tools(given):
                return await chat.send(speaker=_chosen_speaker(given))
            return await chat.answer(speaker=_chosen_speaker(given))


def _quiet_options(given: TurnInput) -> st.SillyTavernInputs:
    """Return what a client says about a question outside the chat."""
    found: st.SillyTavernInputs = {}
    if name := given.quiet.get("quiet_name"):
        found["quiet_name"] = str(name)
    if given.quiet.get("quiet_to_loud"):
        found["quiet_to_loud"] = True
    if given.quiet.get("skip_world_info_registration"):
        found["skip_world_info_registration"] = True
    return found


def _answers_tools(given: TurnInput) -> bool:
    """Return True if the chat ends with a message that only clients send, such as a tool result."""
    return bool(given.lines) and NEUTRAL in given.lines[-1].native


def _unknown_command(given: TurnInput) -> list[str]:
    sent = pending_line(given)
    if sent is None or not is_command(given) or is_known(sent.content):
        return []
    return [f"the slash command {sent.content!r:.60} is not known: nothing was sent"]


class _Host(TurnHost):
    """Asks for chats of SillyTavern."""

    state: ChatState | None = None
    """The state of the chat, which knows the speakers of the round. Not the chat, which holds this host."""

    def request(self, plan: Plan) -> Request:
        """Return the request of a prompt; the client's options override the preset's."""
        given = self.given
        own = plan.llm_options.get("model") if given.cast.preset is not None else None
        request = plan.request(given.dialect, model=given.model or str(own or ""), options=given.options)
        return with_parts(request, given)

    def announced(self, plan: Plan) -> str | None:
        """Return the speaker, where several speak."""
        several = self.state is not None and len(self.state.speakers) > 1
        return _speaker(plan, self.given.cast) if several else None


def _result(
    given: TurnInput, host: _Host, stored: NumberedLines, chat: st.Chat, turn: Turn, begun: str, interrupted: str
) -> TurnResult:
    """Return everything that is stored together."""
    cast, last = given.cast, turn.exchanges[-1] if turn.exchanges else None
    plan = last.plan if last is not None else None
    outside = given.kind in OUTSIDE_CHAT or turn.kind in OUTSIDE_CHAT
    calling = last is not None and bool(last.reply.tool_calls) and not outside
    before = len(chat.state.before)
    changed = lines_after(given.lines[before:], stored.after(chat.lines), pending_line(given))
    lines = [*given.lines[:before], *changed]
    if calling and last is not None:
        said = lines.pop() if given.kind in ("normal", "regenerate") else None
        lines.append(calling_line(last.reply, said.content if said is not None else ""))
    spoken: list[Spoken] = []
    asked = _by_reply(turn.exchanges, chat)
    if not outside:
        answers = lines[len(lines) - len(asked) :] if asked else []
        continued = begun if turn.kind == "continue" else None
        spoken = [_spoken(each, line, given, continued) for each, line in zip(asked, answers, strict=True)]
    elif last is not None:
        reply = replaced(last.reply, text=turn.text)
        spoken = [Spoken(speaker=_speaker(last.plan, cast), reply=reply, line_id=None)]
    emptied = [
        f"nothing is left of the reply by {each.speaker}: it spoke for others, or scripts removed it"
        for each, exchanges in zip(spoken, asked, strict=True)
        if exchanges[-1].reply.text.strip() and not each.reply.text.strip()
    ]
    if not asked and turn.text:  # the result of a command
        spoken = [Spoken(speaker=cast.name, reply=Reply(text=turn.text, finish_reason="stop"), line_id=None)]
    return TurnResult(
        name=cast.name,
        spoken=spoken,
        named=len(chat.state.speakers) > 1,
        interrupted=interrupted,
        plan=plan,
        lines=lines,
        details={**moved(_details_of(chat), given.unread), RUN: chat.state.run()},
        variables=chat.variables.to_dict(),
        warnings=tuple(plan.warnings) if plan is not None else (),
        notes=[*host.notes, *_unknown_command(given), *emptied],
    )


def _details_of(chat: st.Chat) -> JsonObject:
    """Return the data of a chat besides lines and variables."""
    found = {key: value for key, value in chat.metadata.items() if key != "variables"}
    ephemeral = sorted(chat.state.ephemeral_injects)
    return {**found, EPHEMERAL: [*ephemeral]} if ephemeral else found


def _by_reply(exchanges: Sequence[Exchange], chat: st.Chat) -> list[list[Exchange]]:
    """Group the requests of a turn by reply: one may be swiped or continued automatically."""
    automatic = len(exchanges) > max(len(chat.state.speakers), 1)
    found: list[list[Exchange]] = []
    for exchange in exchanges:
        if automatic and found and _speaker(found[-1][0].plan) == _speaker(exchange.plan):
            found[-1].append(exchange)
        else:
            found.append([exchange])
    return found


def _spoken(exchanges: Sequence[Exchange], line: ChatLine, given: TurnInput, continued: str | None) -> Spoken:
    text, reply = line.content, join_replies([("", each.reply) for each in exchanges])
    if continued is not None:
        text = text.removeprefix(continued) if given.pending is None else reply.text
    extra = line.native.get("extra")
    reasoning = extra.get("reasoning") if is_object(extra) else None
    reasoning = reasoning if isinstance(reasoning, str) else reply.reasoning
    speaker = _speaker(exchanges[-1].plan, given.cast)
    return Spoken(speaker=speaker, reply=replaced(reply, text=text, reasoning=reasoning), line_id=line.id)


def _chosen_speaker(given: TurnInput) -> str | None:
    """Return the member that the client chooses, by its name in the chat."""
    known = given.speaker is not None and given.speaker in given.cast.members
    return given.cast.avatar(given.speaker) if known and given.speaker is not None else given.speaker


def _speaker(plan: Plan, cast: Cast | None = None) -> str:
    name = plan.llm_options.get("char_name")
    return name if isinstance(name, str) and name else cast.name if cast is not None else ""
