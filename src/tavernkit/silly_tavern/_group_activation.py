"""Who speaks next in a group chat, and in a group's build."""

from __future__ import annotations

import math
import random as random_module
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError, TavernKitError, Warn
from tavernkit.prompt._inputs import GenerationType, GroupDecision
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._group import Group, GroupMember, reconcile

Random = Callable[[], float]
"""Returns numbers from 0 (included) to 1 (not included)."""

PASSED_ON_TYPES = frozenset({"swipe", "impersonate", "quiet", "continue"})
_WORD = re.compile(r"\b\w+\b", re.ASCII)


class MissingGroupMemberError(TavernKitError):
    """A swipe or continue has no speaker, because the last speaker is not among the characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationInput:
    """The inputs for choosing the speakers of a turn.

    ``characters`` are all known ones, members or not. ``random`` wins over ``seed``; one of them makes a decision
    repeatable. ``forced`` is the avatar of the member who must speak.
    """

    group: Group
    characters: Sequence[GroupMember]
    chat: Sequence[ChatMessage] = ()
    user_input: str = ""
    generation_type: GenerationType = "normal"
    auto_mode: bool = False
    forced: str | None = None
    seed: int | str | None = None
    random: Random | None = None


def activate(given: ActivationInput) -> GroupDecision:
    """Decide who speaks, as SillyTavern does, drawing random numbers in its order."""
    turn = _Turn(given, given.random or random_module.Random(given.seed).random)
    found = turn.decide() if given.group.members else []
    passed_on = given.generation_type if given.generation_type in PASSED_ON_TYPES else "normal"
    return GroupDecision(
        activated=tuple(found),
        generation_types=(passed_on,) * len(found),
        strategy=given.group.activation_strategy,
        generation_type=given.generation_type,
        is_user_input=turn.is_user_input,
        seed=given.seed,
        reasons=tuple(turn.reasons),
        send_as_user=bool(given.group.members) and not found,
    )


@dataclass(slots=True)
class _Turn:
    given: ActivationInput
    random: Random
    reasons: list[str] = field(default_factory=list[str])
    by_avatar: dict[str, GroupMember] = field(default_factory=dict[str, GroupMember])
    is_user_input: bool = False

    def __post_init__(self) -> None:
        for character in self.given.characters:
            self.by_avatar.setdefault(character.avatar, character)
        self.is_user_input = self.given.user_input != "" and not self.given.auto_mode

    def decide(self) -> list[str]:
        group, kind = self.given.group, self.given.generation_type
        if self.given.forced is not None:
            return self.because("forced", [self.given.forced])
        if kind == "quiet":
            found = self.swipe(allow_system=True)[:1]
            return found or self.because("first member", self.known(group.members[:1]))
        if kind in ("swipe", "continue"):
            found = self.swipe(allow_system=False)
            if not found:
                raise MissingGroupMemberError(f"nobody to {kind} as: the last speaker is not among the characters")
            return found
        if kind == "impersonate":
            return self.because("impersonate", self.known([self.pick(group.members)]))
        match group.activation_strategy:
            case "natural":
                return self.natural()
            case "list":
                return self.because("list", self.known(group.enabled_members))
            case "pooled":
                return self.pooled()
            case "manual" if not self.is_user_input:
                return self.because("manual", self.known(self.shuffled(group.enabled_members)[:1]))
            case _:
                return []

    def natural(self) -> list[str]:
        enabled = self.given.group.enabled_members
        banned = self.banned_name()
        eligible = [avatar for avatar in enabled if self.may_speak(avatar, banned)]
        found = self.mentioned(eligible)
        chatty: list[str] = []
        for avatar in self.shuffled(enabled):
            if not self.may_speak(avatar, banned):
                continue
            member = self.by_avatar[avatar]
            if member.talkativeness >= self.random():
                found += self.because("talkativeness", [avatar])
            if member.talkativeness > 0:
                chatty.append(avatar)
        if not found:  # without chatty members anyone may speak, even the one who must not answer itself
            found = self.anyone(chatty or enabled)
        return self.known(found)

    def mentioned(self, eligible: Sequence[str]) -> list[str]:
        found: list[str] = []
        first_named: dict[str, str] = {}
        for avatar in eligible:
            for word in words(self.by_avatar[avatar].name):
                first_named.setdefault(word, avatar)
        for word in words(self.activation_text()):
            # A word calls only the first member who has it in the name.
            first = first_named.get(word)
            if first is not None:
                found += self.because("mention", [first])
        return found

    def anyone(self, pool: Sequence[str]) -> list[str]:
        for _ in pool:  # as many tries as members: the same one may be drawn again
            avatar = self.pick(pool)
            if avatar in self.by_avatar:
                return self.because("nobody else", [avatar])
        return []

    def pooled(self) -> list[str]:
        enabled = self.given.group.enabled_members
        spoken: set[str | None] = set()
        for message in reversed(self.given.chat):
            if message.is_user or self.is_user_input:
                break
            if not message.is_system and not message.narrator:
                spoken.add(message.original_avatar)
        pool = [avatar for avatar in enabled if avatar not in spoken]
        if not pool:
            last = self.given.chat[-1] if self.given.chat else None
            repeated = None if last is None or last.is_user or len(enabled) < 2 else last.original_avatar
            pool = [avatar for avatar in enabled if avatar != repeated]
        return self.because("pooled", self.known([self.pick(pool)]))

    def swipe(self, *, allow_system: bool) -> list[str]:
        chat = self.given.chat
        if not chat:
            return []
        found: list[str] = []

        def skippable(message: ChatMessage) -> bool:
            return message.is_user or (message.is_system and not allow_system) or message.narrator

        last = chat[-1]
        if skippable(last):
            spoken = (m.original_avatar for m in reversed(chat) if not skippable(m) and m.original_avatar)
            speaker = next(spoken, None)
            found += [speaker] if speaker is not None else self.shuffled(self.given.group.members)[:1]
        # In addition to the above, so two members may speak.
        if last.original_avatar:
            found.append(last.original_avatar)
        else:
            members = set(self.given.group.members)
            namesakes = (c.avatar for c in self.given.characters if c.name == last.name and c.avatar in members)
            found += [avatar for avatar in (next(namesakes, None),) if avatar is not None]
        # Not de-duplicated: with a persona named like the last speaker, that member generates twice.
        return self.because("last speaker", [avatar for avatar in found if avatar in self.by_avatar])

    def banned_name(self) -> str | None:
        # A name, not an id: it may be a narrator's or the system's, and it bans all members who are called so.
        last = self.given.chat[-1] if self.given.chat else None
        if self.is_user_input or last is None or last.is_user or self.given.group.allow_self_responses:
            return None
        return last.name

    def activation_text(self) -> str:
        if self.is_user_input:
            return self.given.user_input
        last = self.given.chat[-1] if self.given.chat else None
        return last.mes if last is not None and not last.is_system else ""

    def may_speak(self, avatar: str, banned: str | None) -> bool:
        member = self.by_avatar.get(avatar)
        return member is not None and (banned is None or member.name != banned)

    def known(self, avatars: Sequence[str | None]) -> list[str]:
        unique = dict.fromkeys(avatar for avatar in avatars if avatar is not None)
        return [avatar for avatar in unique if avatar in self.by_avatar]

    def pick(self, pool: Sequence[str]) -> str | None:
        # An empty pool draws a number, too: the numbers after it depend on that.
        position = math.floor(self.random() * len(pool))
        return pool[position] if pool else None

    def shuffled(self, pool: Sequence[str]) -> list[str]:
        deck = list(pool)
        # The last number decides nothing, but SillyTavern draws it.
        for size in range(len(deck), 0, -1):
            other = math.floor(self.random() * size)
            deck[size - 1], deck[other] = deck[other], deck[size - 1]
        return deck

    def because(self, reason: str, avatars: list[str]) -> list[str]:
        for avatar in avatars:
            member = self.by_avatar.get(avatar)
            self.reasons.append(f"{reason}: {member.name if member else avatar}")
        return avatars


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; only ASCII letters, digits and underscores count."""
    return [word.lower() for word in _WORD.findall(text)]


def decide(context: SillyTavernContext, warn: Warn) -> GroupDecision:
    """Return the application's decision, compared with the group's rules if its seed allows that; else theirs."""
    if context.group is None:
        raise ConfigError("there is no group to decide for: pass group= and members=", code="NO_GROUP")
    given = context.decision
    if given is not None and given.seed is None:
        return given
    computed = activate(
        ActivationInput(
            group=context.group,
            characters=[GroupMember(avatar, card) for avatar, card in context.members.items()],
            chat=context.log.lines,
            user_input=context.message,
            generation_type=context.generation_type,
            forced=_avatar(context, context.speaker) if context.speaker is not None else None,
            seed=given.seed if given is not None else context.seed,
            random=context.random_source if given is None and context.seed is None else None,
        )
    )
    return reconcile(given, computed, warn) or computed


def with_speaker(context: SillyTavernContext, warn: Warn) -> SillyTavernContext:
    """Use the speaker's card as the character of a group's build; outside a group nothing changes.

    The new context has the decision that was used.
    """
    if context.group is None or (context.character is not None and context.speaker is None):
        return context
    decision = None
    if context.speaker is not None and context.decision is None:
        avatar = _avatar(context, context.speaker)
    else:
        decision = decide(context, warn)
        if not decision.activated:
            raise ConfigError(_why_nobody(context.group.members, context.members), code="NO_SPEAKER")
        avatar = decision.activated[0]
    extras = context.member_extras.get(avatar)
    own: dict[str, object] = {}
    if extras is not None:
        own = {"character_books": extras.books, "tags": extras.tags, "regex_scripts": extras.regex_scripts}
    return context.replace(character=context.members.get(avatar), avatar=avatar, decision=decision, **own)


def _why_nobody(listed: Sequence[str], cards: Collection[str]) -> str:
    if listed and not set(listed) & set(cards):
        return (
            f"no one can speak: the group's members are {', '.join(listed)}, and members= has the cards "
            f"{', '.join(cards) or 'of none'}"
        )
    return "no one speaks in this turn: pass speaker= to choose one"


def _avatar(context: SillyTavernContext, speaker: str) -> str:
    if speaker in context.members:
        return speaker
    found = next((avatar for avatar, card in context.members.items() if card.name == speaker), None)
    if found is None:
        raise ConfigError(
            f"the speaker {speaker!r} is not among the members: {', '.join(context.members) or 'there are none'}",
            code="UNKNOWN_SPEAKER",
        )
    return found
