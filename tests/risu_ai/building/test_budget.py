from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tavernkit.budget._file_tokenizer import CLAUDE_FILE
from tavernkit.errors import MaxTokensExceededError
from tavernkit.risu_ai import Builder, RisuPlan, Settings
from tavernkit.risu_ai._budget import MessageCounter, blank_removable, drop_oldest
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._memory import MemoryModels
from tests.budget.tokenizer_files import write_tokenizer
from tests.risu_ai.building.scene import Characters, build, character, contents, inputs, omitted, preset

WHOLE_CHAT = {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}


def long_chat(count: int = 6, size: int = 100) -> list[dict[str, Any]]:
    return [{"role": "user" if n % 2 else "char", "data": str(n) * size, "chatId": f"m{n}"} for n in range(count)]


def small(context: int, **changes: Any) -> dict[str, Any]:
    return {
        "preset": preset([WHOLE_CHAT], max_context=context, max_response=0),
        "history": {"message": long_chat(), "fmIndex": -1},
        "token_estimator": Characters(),
        **changes,
    }


def test_the_oldest_are_left_out_first_and_reported():
    plan = build(**small(400))
    assert [block.metadata.get("memo") for block in plan.blocks] == ["m3", "m4", "m5"]
    assert plan.last_memory == "m3"
    assert plan.trim_report is not None
    assert plan.trim_report.eviction_count == 5
    assert omitted(plan)["5 messages (start marker to message #2 of Mira)"].startswith("the context is too small")


@pytest.mark.parametrize(
    ("context", "owner", "first"),
    [
        (900, {}, "NewChat"),
        (690, {}, None),  # the greeting is first, which has no id
        (900, {"supaMemory": True}, "old"),
    ],
)
def test_where_the_prompt_begins_is_kept_on_the_chat_unless_memory_is_on(context: int, owner: Any, first: str | None):
    plan = build(
        **small(
            context,
            character=character(**owner),
            history={"message": long_chat(), "fmIndex": -1, "lastMemory": "old"},
            settings=Settings.from_json({"hypaV3": True}),
            memory=MemoryModels(summarize=lambda _: "", embed=lambda texts: [[1.0] for _ in texts]),
        )
    )
    assert plan.last_memory == first
    assert plan.chat.raw.get("lastMemory") == first


def test_a_prompt_that_cannot_fit_is_refused_with_the_numbers():
    with pytest.raises(MaxTokensExceededError) as caught:
        build(**small(100))
    assert (caught.value.estimated_tokens, caught.value.max_tokens) == (132, 100), (
        "the start line is free, and yet taken off"
    )
    assert caught.value.step == "memory"


def test_an_application_may_want_it_all_the_same():
    plan = build(**small(100, on_overflow="return"))
    assert contents(plan) == []
    assert any("RisuAI would refuse" in warning for warning in plan.warnings)


def test_the_latest_user_message_is_not_dropped_silently():
    chat = [{"role": "user", "data": "u" * 100, "chatId": "u"}, {"role": "char", "data": "c" * 100, "chatId": "c"}]
    given = small(200, history={"message": chat, "fmIndex": -1})
    with pytest.raises(MaxTokensExceededError) as caught:
        build(**given)
    partial = caught.value.partial
    assert isinstance(partial, RisuPlan)
    assert contents(partial) == ["c" * 100], "what RisuAI would send is there to look at"
    assert contents(build(**given, on_overflow="return")) == ["c" * 100]


def test_the_recheck_blanks_chat_items_from_the_top():
    cards = [WHOLE_CHAT, {"type": "plain", "type2": "normal", "text": "mid", "role": "system"}, WHOLE_CHAT]
    plan = build(**small(900, preset=preset(cards, max_context=900, max_response=0)))
    assert [block.metadata.get("memo") for block in plan.blocks] == ["m4", "m5", None, "m4", "m5"]


@pytest.mark.parametrize("strategy", ["group_order", "priority"])
def test_a_generic_strategy_may_decide_instead(strategy: str):
    plan = build(**small(400, strategy=strategy))
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == strategy
    assert plan.trim_report.fits
    assert "5" * 100 in contents(plan)


def test_names_cost_tokens_only_on_other_models():
    message = PromptMessage(role="user", content="four", name="example_user")
    assert MessageCounter("gpt4o", Characters()).message(message) == 4 + 5
    assert MessageCounter("mistral", Characters()).message(message) == 4 + 3 + 12 + 1


def test_models_are_counted_with_the_tokenizer_risu_ai_names():
    text = "Only echoes, and one very old gull."
    assert MessageCounter("gpt4o").text(text) == 9
    assert MessageCounter("nobody-knows").text(text) > 0


def test_nothing_is_dropped_from_what_fits():
    items = [PromptMessage(role="user", content="abc") for _ in range(3)]
    counter = MessageCounter("gpt4o", Characters())
    assert drop_oldest(items, 10, 10, counter).messages == items
    assert blank_removable(items, 24, counter).messages == items


def test_what_may_not_be_blanked_stays_and_the_sum_is_reported():
    items = [PromptMessage(role="user", content="abc", removable=n == 0) for n in range(3)]
    checked = blank_removable(items, 10, MessageCounter("gpt4o", Characters()))
    assert checked.required_tokens == 16


def test_a_second_turn_counts_from_memory():
    builder = Builder(**inputs(character=character()))
    assert contents(builder.build()) == contents(builder.build())


@pytest.mark.parametrize("damaged", [False, True])
def test_claude_is_counted_with_the_vocabulary_of_an_installed_package(
    damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package, place = CLAUDE_FILE
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package, raising=False)
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    stand_in = MessageCounter("claude-3-5-sonnet-20240620").text("the hi the hi")
    path = tmp_path / package / place
    path.parent.mkdir(parents=True)
    write_tokenizer(path)
    if damaged:
        path.write_text("no JSON", "utf-8")
    assert stand_in == 4
    assert MessageCounter("claude-3-5-sonnet-20240620").text("the hi the hi") == (4 if damaged else 6)
    assert MessageCounter("gpt4o").text("the hi the hi") == 4
