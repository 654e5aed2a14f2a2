"""Example dialogue as messages."""

from __future__ import annotations

from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._steps.cbs import example_messages
from tests.conformance.adapters.risu_ai.risu_inputs import database
from tests.conformance.runner import Case

ENGINE = CBSEngine()


def run(case: Case) -> object:
    given = case.input["characters"][0]
    character = RisuCharacter(name=given["name"])
    context = CBSContext(char=character, speaker=character, user=database(case.input)["username"])
    messages = example_messages(
        given.get("exampleMessage", ""), given["name"], lambda text: ENGINE.expand(text, context, warn=lambda _: None)
    )
    return {"messages": [message.to_json() for message in messages]}
