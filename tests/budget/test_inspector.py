from __future__ import annotations

import json

from tavernkit.budget import OverheadProfile, UsageSample, inspect_messages, inspect_plan, max_prompt_tokens
from tavernkit.prompt import Block, Message, Plan
from tests.budget.estimators import CHARACTERS


def test_every_message_is_counted_with_its_parts() -> None:
    messages = [
        Message(role="system", content="hello world"),
        Message(role="tool", content="", metadata={"tool_call_id": "c1"}),
    ]
    inspection = inspect_messages(
        messages,
        model_hint="gpt-4",
        message_overhead_tokens=3,
        include_message_metadata_tokens=True,
        include_metadata_details=True,
    )
    first, second = inspection.messages
    assert (first.index, first.role, first.content_length) == (0, "system", 11)
    assert first.content_tokenization.ids == [15339, 1917]
    assert (first.metadata_token_count, first.metadata_tokenization, first.total_tokens) == (0, None, 5)
    assert second.metadata_tokenization is not None
    assert second.metadata_token_count == second.metadata_tokenization.token_count > 0
    assert inspection.totals == {
        "message_count": 2,
        "content_tokens": 2,
        "metadata_tokens": second.metadata_token_count,
        "overhead_tokens": 6,
        "total_tokens": 8 + second.metadata_token_count,
    }
    assert inspection.estimator["encoding"] == "cl100k_base"
    assert json.loads(json.dumps(inspection.to_dict()))["totals"]["message_count"] == 2


def test_metadata_details_need_both_switches() -> None:
    messages = [Message(role="tool", content="", metadata={"a": 1})]
    assert inspect_messages(messages, include_metadata_details=True).messages[0].metadata_token_count == 0
    only_counted = inspect_messages(messages, include_message_metadata_tokens=True).messages[0]
    assert only_counted.metadata_token_count > 0
    assert only_counted.metadata_tokenization is None


def test_mappings_are_messages_too() -> None:
    messages = [
        {"role": " ", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "Ann"},
    ]
    inspection = inspect_messages(messages, token_estimator=CHARACTERS, include_message_metadata_tokens=True)
    first, second = inspection.messages
    assert (first.role, first.content_length, first.metadata_token_count) == ("unknown", 0, len('{"tool_calls":[]}'))
    assert second.content_length == len('[{"type":"text","text":"hi"}]')
    assert second.metadata_token_count == 0


def test_an_estimator_that_can_only_count_is_enough() -> None:
    plan = Plan(blocks=[Block(role="user", content="four"), Block(role="user", content="off", enabled=False)])
    inspection = inspect_plan(plan, token_estimator=CHARACTERS)
    assert inspection.estimator == {"backend": "Characters"}
    assert inspection.totals["total_tokens"] == 4
    assert not inspection.messages[0].content_tokenization.detailed


def test_overhead_is_learnt_from_reported_usage() -> None:
    samples = [UsageSample(count, 100, 100 + 4 * count + 3) for count in (1, 5, 20)]
    profile = OverheadProfile.fit(samples)
    assert profile == OverheadProfile(per_message=4, per_request=3)
    assert profile.total(10) == 43


def test_samples_of_one_length_count_as_per_message_and_round_up() -> None:
    assert OverheadProfile.fit([UsageSample(4, 10, 25), UsageSample(4, 10, 24)]) == OverheadProfile(per_message=4)


def test_overhead_is_never_negative() -> None:
    assert OverheadProfile.fit([]) == OverheadProfile()
    assert OverheadProfile.fit([UsageSample(0, 5, 5)]) == OverheadProfile()
    assert OverheadProfile.fit([UsageSample(2, 100, 50), UsageSample(9, 100, 20)]) == OverheadProfile()


def test_the_room_for_the_prompt_is_the_difference() -> None:
    assert max_prompt_tokens(4096, 1024) == 3072
    assert max_prompt_tokens(None, 100) == -100
