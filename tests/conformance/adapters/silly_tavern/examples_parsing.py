"""Example dialogue into blocks and messages."""

from __future__ import annotations

from tavernkit._text.js_values import trim
from tavernkit.cards import Character
from tavernkit.silly_tavern._chat.card_fields import parse_block, split_examples
from tavernkit.silly_tavern._macros.engine import MacroEngine
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.substitution import Substitution
from tests.conformance.adapters.silly_tavern.group_inputs import open_group
from tests.conformance.runner import Case

ENGINE = MacroEngine()


def run(case: Case) -> object:
    given = case.input
    power_user = given.get("power_user", {})
    names = given["group"]["members"] if "group" in given else ()
    environment = MacroEnvironment(
        user_name=given["user_name"],
        character_name=given["char_name"],
        character=Character(name="", description="D", mes_example=given["mes_example"]),
        group=open_group(names, given["char_name"]) if "group" in given else None,
        collapse_newlines=power_user.get("collapse_newlines", False),
    )
    field = Substitution(ENGINE, environment, warn=lambda _: None).card(trim(given["mes_example"]))
    blocks = split_examples(field)
    return {
        "field": field,
        "blocks": blocks,
        "messages": [
            [
                {"role": "system", "content": message.content, "name": message.name}
                for message in parse_block(
                    block, user_name=given["user_name"], character_name=given["char_name"], group_names=names
                )
            ]
            for block in blocks
        ],
    }
