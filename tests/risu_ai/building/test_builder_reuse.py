"""What a builder does not do again on the next turn."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.budget._estimator import CountCache
from tavernkit.cards import User
from tavernkit.risu_ai import Builder, RisuChat, RisuMessage
from tavernkit.risu_ai import _plan as plan_module
from tests.risu_ai.building.scene import character, inputs, preset

TURNS = 20


def chat(turns: int = TURNS) -> RisuChat:
    texts = [f"The lantern {number} burns." for number in range(turns)]
    return RisuChat(
        messages=tuple(
            RisuMessage(role="char" if number % 2 else "user", data=text, raw={"chatId": f"m{number}"})
            for number, text in enumerate(texts)
        )
    )


def given(**changes: Any) -> dict[str, Any]:
    return inputs(history=chat(), preset=preset(max_context=16_000), **changes)


def test_a_next_turn_makes_only_blocks_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(**given())
    first = builder.build()
    made: list[str] = []
    make = plan_module._block  # pyright: ignore[reportPrivateUsage]  # counted
    monkeypatch.setattr(
        plan_module, "_block", lambda message, *rest: (made.append(message.content), make(message, *rest))[1]
    )
    second = builder.build(history=chat(TURNS + 1))
    last_of_both = [f"The lantern {number} burns." for number in (TURNS - 1, TURNS)]  # the last one has its own place
    assert [text for text in made if "lantern" in text] == last_of_both
    kept = {block.id: block for block in first.blocks}
    assert sum(kept.get(block.id) is block for block in second.blocks) >= TURNS - 1


def test_each_message_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(**given())
    asked: list[str] = []
    get = CountCache.get
    monkeypatch.setattr(CountCache, "get", lambda self, hint, text: (asked.append(text), get(self, hint, text))[1])
    for _ in range(2):
        builder.build()
    assert [text for text in asked if "lantern" in text] == [message.data for message in chat().messages]


@pytest.mark.parametrize(
    "changes",
    [
        {"user": User(name="Eve")},
        {"character": character(name="Other")},
        {"preset": preset(max_context=400)},
        {"preset": preset(ai_model="claude-3-opus")},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_is_remembered_changes_no_prompt(changes: dict[str, Any]) -> None:
    builder = Builder(**given())
    builder.build()
    again = builder.build(**changes, on_overflow="return")
    anew = Builder(**given()).build(**changes, on_overflow="return")
    assert again.to_messages() == anew.to_messages()
    assert [block.metadata for block in again.blocks] == [block.metadata for block in anew.blocks]
