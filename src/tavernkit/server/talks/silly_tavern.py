"""Chats in the way of SillyTavern."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tavernkit import silly_tavern as st
from tavernkit.cards import Character
from tavernkit.errors import TavernKitError
from tavernkit.models import Reply, Request
from tavernkit.server.build_executor import BuildExecutor
from tavernkit.server.library import Cast
from tavernkit.server.storage.chats import ChatLine, new_id, new_line
from tavernkit.server.talks import silly_tavern_lines as lines_of_chats
from tavernkit.server.talks.silly_tavern_builds import Builds, card_of, pending_line, typed_line
from tavernkit.server.talks.silly_tavern_lines import NEUTRAL
from tavernkit.server.talks.silly_tavern_long_chats import TIMED, moved
from tavernkit.server.talks.silly_tavern_scripts import Said
from tavernkit.server.talks.talk import Ask, BuiltPrompt, Spoken, TalkInput, TalkResult, joined_reply, with_parts
from tavernkit.server.upstreams import ClientDisconnectedError
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.values import JsonObject, thaw_object

SHORT_REPLY = 20_000
"""Characters of a reply that is cleaned up at once when there are no scripts."""


class SillyTavernTalk:
    """Builds prompts as SillyTavern does and keeps its chats."""

    user_line = staticmethod(lines_of_chats.user_line)
    neutral_line = staticmethod(lines_of_chats.neutral_line)

    def __init__(self, build_executor: BuildExecutor, *, clean_up: bool = True) -> None:
        self._build_executor = build_executor
        self._clean_up = clean_up
        self._builds = Builds()

    def greetings(self, cast: Cast) -> list[tuple[str, int]]:
        """Who may begin a chat, and how many greetings each has."""
        return [(card.name, len(card.all_greetings)) for _, card in _speaking(cast)]

    async def greeting(self, cast: Cast, *, user_name: str, index: int = 0) -> list[ChatLine]:
        """The lines a new chat begins with; whoever has no greetings says nothing."""
        key = (cast.key, "greeting")
        return await self._build_executor.run(key, lambda: self._greeting(cast, user_name=user_name, index=index))

    def _greeting(self, cast: Cast, *, user_name: str, index: int) -> list[ChatLine]:
        lines: list[ChatLine] = []
        for avatar, card in _speaking(cast):
            if not card.all_greetings:
                continue
            texts = self._builds.texts(cast, card, user_name=user_name)
            expanded = [texts.greeting(greeting) for greeting in card.all_greetings]
            message = st.ChatMessage(
                name=card.name, mes=expanded[index], send_date=lines_of_chats.now(), original_avatar=avatar
            )
            if len(expanded) > 1:
                message = message.replace(swipes=tuple(expanded), swipe_id=index)
            lines.append(new_line("assistant", message.mes, message.to_json()))
        return lines

    def greeting_details(self, index: int) -> JsonObject:
        """Nothing: the greeting is a line of the chat."""
        del index
        return {}

    async def edited(self, line: ChatLine, content: str, cast: Cast, *, user_name: str) -> str:
        """What is stored of an edited message."""
        if NEUTRAL in line.native:
            return content
        message = st.ChatMessage.from_json(line.native)
        texts = self._builds.texts(cast, card_of(cast, message.original_avatar), user_name=user_name)
        return await self._build_executor.run((cast.key, "edited"), lambda: texts.edited(content, message))

    async def build(self, given: TalkInput) -> BuiltPrompt:
        """Build the prompt of a turn, in a group that of its first speaker."""
        variables = _variables(given)
        given = await self._with_sent_text(given, variables)
        speakers = await self._speakers(given, variables)
        plan = await self._build(dataclasses.replace(given, speaker=speakers[0] if speakers else None), variables)
        return BuiltPrompt(plan=plan, request=_request(plan, given), speaker=_speaker(plan, given.cast))

    async def run(self, given: TalkInput, ask: Ask) -> TalkResult:
        """Build, ask the model, and say what the chat becomes: in a group once for each who speaks."""
        variables = _variables(given)
        turn = _Turn(await self._begun(given, variables))
        speakers = await self._speakers(turn.given, variables)
        turn.several = several = len(speakers) > 1
        if not speakers:  # nobody has anything to say: what the user says is kept
            turn.lines = [*(await self._sent(turn.given, variables)).lines]
        for number, speaker in enumerate(speakers):
            now = dataclasses.replace(turn.given, speaker=speaker)
            try:
                plan = await self._build(now, variables)
                plan.variables.apply(variables)
                name = _speaker(plan, given.cast)
                reply = await ask(_request(plan, now), speaker=name if several else None)
            except (TavernKitError, ClientDisconnectedError) as error:
                if not turn.spoken:
                    raise
                # Those who spoke before have spoken: what they said is kept, and the round ends here.
                turn.interrupted = str(error) or type(error).__name__
                break
            stored = await self._as_stored(now, reply, variables, name)
            if reply.text.strip() and not stored.text.strip():
                turn.notes.append(f"nothing is left of the reply of {name}: it spoke for others, or scripts removed it")
            turn.take(plan, stored, name, speaker)
            if reply.interrupted or reply.tool_calls:
                break
            if number + 1 < len(speakers):
                turn.next_speaker()
        return turn.result(variables, given)

    async def _as_stored(
        self, given: TalkInput, reply: Reply, variables: InMemoryVariablesStore, speaker: str
    ) -> Reply:
        """A reply as regex scripts and the clean-up leave it; one that broke off may go on, so its end stays."""
        cast = given.cast
        clean_up = self._clean_up and bool(speaker) and not reply.interrupted
        texts = self._builds.texts(cast, card_of(cast, given.speaker), user_name=given.user_name, variables=variables)
        if texts.leave_replies and not clean_up:
            return reply
        said = Said(
            kind=given.kind,
            user=texts.environment.user_name or "User",
            character=speaker,
            members=[bundle.character.name for bundle in cast.members.values()],
            stop=given.options.get("stop"),
        )

        def written() -> Reply:
            if clean_up:
                text = texts.cleaned(reply.text, said, cast.power_user)
            else:
                text = (texts.impersonated if given.kind == "impersonate" else texts.reply)(reply.text)
            return dataclasses.replace(reply, text=text, reasoning=texts.reasoning(reply.reasoning))

        if texts.leave_replies and len(reply.text) <= SHORT_REPLY:
            return written()
        return await self._build_executor.run((cast.key, "reply"), written)

    async def _begun(self, given: TalkInput, variables: InMemoryVariablesStore) -> TalkInput:
        """The turn as it begins: what it replaces is gone, what it needs is there."""
        if given.kind in ("swipe", "continue"):
            lines_of_chats.last_reply(given.lines, given.kind)
        if given.kind == "regenerate" and given.cast.group is not None:
            # In a group the whole round is regenerated: whoever speaks then answers what came before it.
            lines = lines_of_chats.without_last_round(given.lines, in_group=True)
            return dataclasses.replace(given, kind="normal", lines=lines)
        return await self._with_sent_text(given, variables)

    async def _with_sent_text(self, given: TalkInput, variables: InMemoryVariablesStore) -> TalkInput:
        """A line that does not go through the input box gets its text here."""
        return given if given.kind != "normal" or typed_line(given) is not None else await self._sent(given, variables)

    async def _sent(self, given: TalkInput, variables: InMemoryVariablesStore) -> TalkInput:
        """The turn with the user's words as they are stored."""
        sent = pending_line(given)
        if sent is None:
            return given
        card = card_of(given.cast, given.speaker)
        texts = self._builds.texts(given.cast, card, user_name=given.user_name, variables=variables)
        text = await self._build_executor.run((given.cast.key, "sent"), lambda: texts.user_input(sent.content))
        line = lines_of_chats.with_text(sent, text)
        return dataclasses.replace(given, lines=[*given.lines[:-1], line])

    async def _speakers(self, given: TalkInput, variables: InMemoryVariablesStore) -> Sequence[str | None]:
        """Who speaks in this turn: the character, or members of the group by its own rules."""
        if given.cast.group is None:
            return (given.speaker,)
        key = (given.cast.key, "decide")
        decision = await self._build_executor.run(key, lambda: self._builds.decide(given, variables))
        # Swiping and going on are about the last reply, which is one.
        return decision.activated if given.kind in ("normal", "regenerate") else decision.activated[-1:]

    async def _build(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.ChatPlan:
        size = len(given.lines).bit_length()
        return await self._build_executor.run((given.cast.key, size), lambda: self._builds.plan(given, variables))


class _Turn:
    """What a turn has come to so far."""

    def __init__(self, given: TalkInput) -> None:
        self.given = given
        self.lines = list(given.lines)
        self.details: JsonObject = given.details
        self.spoken: list[Spoken] = []
        self.plan: st.ChatPlan | None = None
        self.several = False
        self.interrupted = ""
        self.notes: list[str] = []
        self._round = new_id() if given.cast.group is not None else None

    def take(self, plan: st.ChatPlan, reply: Reply, speaker: str, avatar: str | None) -> None:
        """Add a reply."""
        self.plan = plan
        self.details = {**self.details, TIMED: moved(thaw_object(plan.timed_world_info), self.given.unread)}
        line_id = self._place(plan, reply, speaker, avatar)
        self.spoken.append(Spoken(speaker=speaker, reply=reply, line_id=line_id))

    def next_speaker(self) -> None:
        """Let the next member answer what has been said by now."""
        self.given = dataclasses.replace(
            self.given, kind="normal", lines=list(self.lines), pending=None, details=self.details
        )

    def result(self, variables: InMemoryVariablesStore, given: TalkInput) -> TalkResult:
        """Everything that is stored together."""
        stored = variables.to_dict()
        reply = joined_reply(self.spoken, named=self.several, interrupted=self.interrupted)
        return TalkResult(
            reply=reply,
            text=reply.text,
            speaker=self.spoken[-1].speaker if self.spoken else given.cast.name,
            plan=self.plan,
            lines=self.lines,
            reply_id=self.spoken[-1].line_id if self.spoken else None,
            details=self.details,
            local_variables=stored.get("local", {}),
            global_variables=stored.get("global", {}),
            warnings=tuple(self.plan.warnings) if self.plan is not None else (),
            spoken=tuple(self.spoken),
            notes=tuple(self.notes),
        )

    def _place(self, plan: st.ChatPlan, reply: Reply, speaker: str, avatar: str | None) -> str | None:
        given, lines = self.given, self.lines
        if given.kind == "impersonate":
            return None
        if given.kind in ("swipe", "continue"):
            lines[-1] = lines_of_chats.changed_reply(lines[-1], reply, kind=given.kind)
            return lines[-1].id
        if given.kind == "regenerate":
            self.lines = lines = lines_of_chats.without_last_round(lines, in_group=False)
        if given.pending is not None and lines and lines[-1].id == given.pending:
            lines[-1] = lines_of_chats.as_sent(lines[-1], plan.chat)
        member = avatar if given.cast.group is not None else None
        lines.append(lines_of_chats.reply_line(reply, speaker, avatar=member, round_id=self._round))
        return lines[-1].id


def _speaking(cast: Cast) -> list[tuple[str | None, Character]]:
    """The character, or the members of a group with their ids."""
    if cast.group is not None:
        return [(member, bundle.character) for member, bundle in cast.members.items()]
    return [(None, cast.character.character)] if cast.character is not None else []


def _variables(given: TalkInput) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": given.local_variables, "global": given.global_variables})


def _request(plan: st.ChatPlan, given: TalkInput) -> Request:
    own = plan.llm_options.get("model") if given.cast.preset is not None else None
    return with_parts(plan.request(given.dialect, model=given.model or str(own or ""), options=given.options), given)


def _speaker(plan: st.ChatPlan, cast: Cast) -> str:
    name = plan.llm_options.get("char_name")
    return name if isinstance(name, str) and name else cast.name
