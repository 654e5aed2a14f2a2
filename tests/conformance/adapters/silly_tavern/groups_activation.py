from __future__ import annotations

from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._group_activation import ActivationInput, MissingGroupMemberError, activate
from tests.conformance.adapters.silly_tavern.group_inputs import member
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    randoms = iter(given["random"])
    consumed = 0

    def random() -> float:
        nonlocal consumed
        consumed += 1
        return next(randoms)

    characters = [member(character) for character in given["characters"]]
    forced = given["params"].get("force_chid")
    try:
        decision = activate(
            ActivationInput(
                group=Group.from_json(given["group"]),
                characters=characters,
                chat=[ChatMessage.from_json(message) for message in given["chat"]],
                user_input=given["user_input"],
                generation_type=given["type"] or "normal",
                auto_mode=given["by_auto_mode"],
                forced=characters[forced].avatar if isinstance(forced, int) else None,
                random=random,
            )
        )
    except MissingGroupMemberError:
        return {
            "activated": [],
            "generate_types": [],
            "sent_as_user": None,
            "random_consumed": consumed,
            "error": "missing_member",
        }
    avatars = [character.avatar for character in characters]
    chids = [avatars.index(avatar) for avatar in decision.activated]
    return {
        "activated": [{"chid": i, "avatar": avatars[i], "name2": characters[i].name} for i in chids],
        "generate_types": list(decision.generation_types),
        "sent_as_user": given["user_input"] if decision.send_as_user else None,
        "random_consumed": consumed,
    }
