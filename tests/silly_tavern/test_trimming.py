from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import MaxTokensExceededError, PipelineError, StrictModeError
from tavernkit.silly_tavern import ChatPlan
from tests.silly_tavern.scene import build, card, contents, preset

LONG = "word " * 60


def history(*texts: str) -> list[dict[str, Any]]:
    return [
        {"name": "Mira" if text.startswith(">") else "Lyra", "is_user": text.startswith(">"), "mes": text.lstrip(">")}
        for text in texts
    ]


def small(tokens: int, **keys: Any):
    return preset(openai_max_context=tokens + 50, openai_max_tokens=50, **keys)


def test_history_is_cut_from_its_oldest_message_and_that_is_told():
    plan = build(history=history("first", LONG, "third", ">last"), preset=small(80))
    assert contents(plan)[-2:] == ["third", "last"]
    report = plan.trim_report
    assert report is not None
    assert (report.strategy, report.budget_tokens, report.fits, report.over_budget) == ("reference", 80, True, True)
    assert [(record.block_id, record.reason) for record in report.evictions] == [
        ("chatHistory-2", "budget_exceeded"),
        ("chatHistory-1", "budget_exceeded"),
    ]
    assert report.evictions[-1].token_count == 6
    told = [(omission.kind, omission.reason) for omission in plan.omissions if omission.kind == "history"]
    assert told == [
        ("history", "does not fit the token budget"),
        ("history", "older than the first message that does not fit the token budget"),
    ]


@pytest.mark.parametrize("strategy", ["reference", "priority"])
def test_history_that_is_cut_is_an_error_in_strict_mode(strategy: str):
    lines = history("first", LONG, "third", ">last")
    assert not build(history=lines, preset=small(80), strategy=strategy).warnings
    with pytest.raises(PipelineError, match="messages of the chat do not fit the token budget of 80") as caught:
        build(history=lines, preset=small(80), strategy=strategy, strict=True)
    assert isinstance(caught.value.__cause__, StrictModeError)
    assert build(history=lines[-1:], preset=small(80), strategy=strategy, strict=True)


def test_examples_are_dropped_as_whole_dialogues():
    blocks = ("{{user}}: a\n{{char}}: b", f"{{{{user}}}}: {LONG}\n{{{{char}}}}: d", "{{user}}: e")
    character = card(mes_example="".join(f"<START>\n{block}\n" for block in blocks))
    plan = build(character=character, preset=small(160))
    assert "b" in contents(plan)
    assert "d" not in contents(plan)
    assert "e" not in contents(plan)
    assert {record.reason for record in plan.trim_report.evictions} == {"group_overflow"}  # pyright: ignore[reportOptionalMemberAccess]
    reasons = [omission.reason for omission in plan.omissions if omission.kind == "example"]
    assert reasons == ["does not fit the token budget", "comes after an example that does not fit"]


def test_mandatory_content_that_does_not_fit_raises_with_the_numbers_and_the_partial_plan():
    with pytest.raises(MaxTokensExceededError) as caught:
        build(character=card(description=LONG), preset=small(60))
    error = caught.value
    assert (error.stage, error.max_tokens, error.reserve_tokens, error.limit_tokens) == ("trimming", 110, 50, 60)
    assert error.estimated_tokens > 60
    assert isinstance(error.partial, ChatPlan)
    assert contents(error.partial) == ["Write Lyra's next reply in a fictional chat between Lyra and Mira."]


def test_the_opt_out_returns_what_silly_tavern_would_send():
    plan = build(character=card(description=LONG), preset=small(60), on_overflow="return")
    assert plan.overflow is not None
    assert "mandatory prompts do not fit" in plan.warnings[0]
    omitted = {omission.id: omission.reason for omission in plan.omissions}
    assert "the assembly ended here" in omitted["charDescription"]
    assert "the assembly ended before the chat" in omitted["chatHistory"]


def test_the_latest_user_message_is_never_dropped_silently():
    with pytest.raises(MaxTokensExceededError) as caught:
        build(history=history("hi"), message=LONG, preset=small(80))
    assert caught.value.estimated_tokens > 80
    plan = build(history=history("hi"), message=LONG, preset=small(80), on_overflow="return")
    assert "the latest user message" in plan.warnings[0]


def test_a_users_message_behind_a_long_reply_counts_as_lost_too():
    with pytest.raises(MaxTokensExceededError):
        build(history=history(">mine", LONG), preset=small(80))


def test_without_a_place_for_the_chat_nothing_is_lost():
    plan = build(
        preset=preset(prompt_order=[{"character_id": 100001, "order": [{"identifier": "main", "enabled": True}]}])
    )
    assert "Is Lyra alone?" not in contents(plan)


def test_the_generic_strategies_decide_after_the_assembly():
    character = card(mes_example=f"<START>\n{{{{user}}}}: {LONG}\n{{{{char}}}}: d")
    plan = build(character=character, preset=small(110), strategy="group_order")
    assert "d" not in contents(plan)
    assert contents(plan)[-1] == "Is Lyra alone?"
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == "group_order"
    assert plan.trim_report.fits
    evicted = [block for block in plan.blocks if block.disabled]
    assert {block.token_budget_group for block in evicted} == {"examples"}


def test_the_generic_strategies_raise_as_well():
    with pytest.raises(MaxTokensExceededError):
        build(character=card(description=LONG), preset=small(60), strategy="priority")


def test_a_place_that_silly_tavern_overwrites_is_told():
    markers = ("worldInfoBefore", "worldInfoAfter", "charDescription", "charPersonality", "scenario")
    lines = [{"identifier": each, "enabled": True} for each in ("main", *markers, "chatHistory", "dialogueExamples")]
    plan = build(
        history=history("hi", ">yo", "half"),
        generation_type="continue",
        character=card(description=""),
        preset=preset(prompt_order=[{"character_id": 100001, "order": lines}]),
    )
    assert "half" not in contents(plan)
    assert any("took its place" in omission.reason for omission in plan.omissions)
    assert any("is lost" in warning for warning in plan.warnings)
