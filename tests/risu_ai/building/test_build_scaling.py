"""Builds of chats and templates that ask for much: they end soon, and within the memory there is."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit._macros import BuildBudget
from tavernkit.risu_ai import Builder, CBSEngine, RisuPlan
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._prompt_template.card_writer import Printer
from tavernkit.risu_ai.errors import CBSLimitError
from tests.quickness import linear_time
from tests.risu_ai.building.scene import Characters, character, inputs, lore, preset


def build(**changes: Any) -> RisuPlan:
    given = inputs(token_estimator=Characters(), on_overflow="return", **changes)
    with linear_time():
        return Builder().build(**given)


def chat(text: str, count: int) -> dict[str, Any]:
    messages = [{"role": "user", "data": f"{text}{number}", "chatId": f"m{number}"} for number in range(count)]
    return {"message": messages, "fmIndex": -1}


def roomy(template: list[dict[str, Any]] | None = None) -> Any:
    return preset(template, max_context=10**12)


def test_messages_that_each_repeat_the_whole_chat_are_bounded_together() -> None:
    plan = build(history=chat("{{userhistory}}", 300), preset=roomy())
    reported = [warning for warning in plan.warnings if "do too much work together" in str(warning)]
    assert len(reported) == 1
    assert plan.messages[-1].content == "{{userhistory}}299"


def test_messages_that_each_loop_for_long_are_bounded_together() -> None:
    loops = "{{#each 1§2§3§4§5§6§7§8 as a}}" * 7 + "{{user}}" + "{{/each}}" * 7
    plan = build(history=chat(loops, 100), preset=roomy())
    assert "do too much work together" in str(plan.warnings[-1])


def test_texts_that_take_too_much_together_are_an_error_in_strict_mode() -> None:
    budget = BuildBudget()
    budget.spend(10**9, 0)
    with pytest.raises(CBSLimitError):
        CBSEngine().expand("{{user}}", CBSContext(user="Ann", cbs_budget=budget), strict=True)


def test_a_card_that_joins_a_message_with_itself_stops_doubling_it() -> None:
    plan = build(
        character=character(globalLore=[lore("Eldoria.")]),
        preset=roomy([{"type": "lorebook"}, *[{"type": "lorebook"}] * 100]),
    )
    assert len(plan.messages[0].content) < 17_000_000
    assert any("would have more than 16000000 characters" in str(warning) for warning in plan.warnings)


def test_cards_that_each_print_the_whole_chat_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.risu_ai._prompt_template.card_writer.MAX_PRINTED_MESSAGES", 5000)
    card = {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}
    plan = build(history=chat("a", 200), preset=roomy([card] * 200))
    assert len(plan.messages) == 5000
    assert any("prints more than 5000 messages" in str(warning) for warning in plan.warnings)


def test_many_system_messages_are_joined_at_once() -> None:
    printer = Printer("gpt4o")
    with linear_time():
        printer.push([PromptMessage(role="system", content="a" * 20) for _ in range(100_000)], "card 1")
        printer.push([PromptMessage(role="user", content="b")])
        joined, _ = printer.messages
    assert len(joined.content) == 22 * 100_000 - 2
    assert len(joined.merged) == 99_999


def test_many_cache_cards_over_a_long_chat_are_given_up() -> None:
    warnings: list[str] = []
    printer = Printer("gpt4o", warnings.append)
    printer.push([PromptMessage(role="user", content="b") for _ in range(5000)])
    for _ in range(5000):
        printer.mark_cache(10**9, "all")
    assert all(message.cache_point for message in printer.messages)
    assert len(warnings) == 1
