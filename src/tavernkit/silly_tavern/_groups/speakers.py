"""Who speaks in a group's build."""

from __future__ import annotations

from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._group_decision import GroupDecision
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._groups.activation import ActivationInput, activate
from tavernkit.silly_tavern._groups.group import GroupMember, reconcile


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
            raise ConfigError("no one speaks in this turn: pass speaker= to choose one", code="NO_SPEAKER")
        avatar = decision.activated[0]
    extras = context.member_extras.get(avatar)
    own: dict[str, object] = {}
    if extras is not None:
        own = {"character_books": extras.books, "tags": extras.tags, "regex_scripts": extras.regex_scripts}
    return context.replace(character=context.members.get(avatar), avatar=avatar, decision=decision, **own)


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
