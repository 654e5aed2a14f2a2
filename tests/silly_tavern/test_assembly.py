from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ChatMessage, ChatPlan, PowerUser, Settings
from tavernkit.silly_tavern._chat_completion.history_messages import sanitized_name
from tests.silly_tavern.scene import build, card, contents, order, preset


def custom(identifier: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"identifier": identifier, "content": content, "role": "system", "system_prompt": False, **fields}


def chat(*texts: str, **extra: Any) -> list[ChatMessage]:
    return [
        ChatMessage(
            name="Mira" if text[0] == ">" else "Lyra", mes=text.lstrip(">"), is_user=text[0] == ">", extra=extra
        )
        for text in texts
    ]


def request_messages(plan: ChatPlan) -> list[Any]:
    messages: Any = plan.to_request()["messages"]
    return messages


def test_a_prompt_listed_twice_is_sent_once_and_paid_for_twice():
    prompts = [custom("c", "Once only.")]
    once = build(preset=preset(prompts=prompts, prompt_order=order("main", "c", "chatHistory")))
    twice = build(preset=preset(prompts=prompts, prompt_order=order("main", "c", "chatHistory", "c")))
    assert contents(once) == contents(twice)
    assert once.budget_left - twice.budget_left == once.token_counts["c"]


def test_markers_the_order_lacks_are_sent_at_the_end():
    plan = build(preset=preset(prompt_order=order("main", "chatHistory")))
    assert contents(plan)[-1] == "Lyra keeps the lamp."


def test_a_marker_that_is_switched_off_is_not_sent():
    plan = build(preset=preset(prompt_order=order("main", "-charDescription", "chatHistory")))
    assert "Lyra keeps the lamp." not in contents(plan)


def test_blank_prompts_are_sent_as_they_are():
    plan = build(preset=preset(prompts=[custom("c", "  ")], prompt_order=order("c", "chatHistory")))
    assert contents(plan)[0] == "  "


@pytest.mark.parametrize(
    ("name", "sent"),
    [("Mira_1", "Mira_1"), ("Zoë 🙂", "Zo____"), ("a" * 70, "a" * 64), ("名", "_")],
)
def test_names_are_sent_as_the_api_takes_them(name: str, sent: str):
    assert sanitized_name(name) == sent


def test_names_go_into_their_own_field_when_asked_for():
    plan = build(preset=preset(names_behavior=1))
    assert [message.get("name") for message in request_messages(plan)[-2:]] == ["Lyra", "Mira"]


def test_continuing_moves_the_last_message_behind_everything_with_a_nudge():
    plan = build(
        history=chat(">q", "half"),
        generation_type="continue",
        preset=preset(continue_nudge_prompt="Go on from: {{lastChatMessage}}"),
    )
    assert contents(plan)[-2:] == ["half", "Go on from: half"]
    assert [block.slot for block in plan.blocks][-2:] == ["continueNudge", "continueNudge"]


def test_continuing_by_prefill_ends_with_the_message_itself_unexpanded():
    plan = build(history=chat(">q", "half {{user}}"), generation_type="continue", preset=preset(continue_prefill=True))
    assert contents(plan)[-1] == "half {{user}}"


def test_claudes_prefill_stands_before_the_continued_message():
    keys = {"chat_completion_source": "claude", "continue_prefill": True, "assistant_prefill": "Sure, {{user}}."}
    plan = build(history=chat(">q", "half"), generation_type="continue", preset=preset(**keys))
    assert contents(plan)[-1] == "Sure, Mira.\n\nhalf"


@pytest.mark.parametrize(
    ("changes", "nudged"),
    [({}, True), ({"continue_postfix": ""}, False), ({"continue_prefill": True}, False)],
)
def test_continuing_an_empty_chat_sends_the_nudge_alone(changes: dict[str, Any], nudged: bool):
    plan = build(preset=preset(continue_nudge_prompt="Go on.", **changes), history=[], generation_type="continue")
    assert (contents(plan)[-1] == "Go on.") is nudged
    assert [block.slot for block in plan.blocks][-1] == ("continueNudge" if nudged else "chatHistory")


def test_an_empty_postfix_and_message_leave_the_history_alone():
    plan = build(
        history=[*chat(">q"), ChatMessage(name="Lyra")], generation_type="continue", preset=preset(continue_postfix="")
    )
    assert contents(plan)[-1] == "q"


def test_impersonating_and_quiet_prompts_come_last():
    plan = build(
        generation_type="impersonate", quiet_prompt="Q {{char}}", preset=preset(impersonation_prompt="I {{user}}")
    )
    assert contents(plan)[-2:] == ["I Mira", "Q Lyra"]


def test_pinned_examples_are_served_before_the_history():
    character = card(mes_example="<START>\n{{user}}: " + "word " * 30)
    keys = {"openai_max_context": 160, "openai_max_tokens": 50}
    history = chat("old " * 20, ">new")
    pinned = Settings(power_user=PowerUser(pin_examples=True))
    assert "example_user" not in [
        message.name for message in build(character=character, history=history, preset=preset(**keys)).messages
    ]
    plan = build(character=character, history=history, preset=preset(**keys), settings=pinned)
    assert "example_user" in [message.name for message in plan.messages]
    assert contents(plan)[-1] == "new"


def test_tool_calls_of_the_history_are_sent_with_their_results():
    invocations = [{"id": "c1", "name": "tide", "parameters": "{}", "result": ""}]
    history = [
        *chat(">q"),
        ChatMessage(name="System", mes="t", is_system=True, extra={"tool_invocations": invocations}),
    ]
    messages = request_messages(build(history=history, preset=preset(function_calling=True)))
    call = {"id": "c1", "type": "function", "function": {"arguments": "{}", "name": "tide"}}
    assert messages[-2:] == [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "[No content]", "tool_call_id": "c1"},
    ]
    assert request_messages(build(history=history, preset=preset()))[-1] == {"role": "user", "content": "q"}


def test_tools_reserve_tokens_of_the_budget():
    tool = {"name": "tide", "description": "d", "parameters": {"type": "object"}}
    keys = {"function_calling": True}
    without = build(preset=preset())
    with_none, with_one = build(preset=preset(**keys)), build(preset=preset(**keys), tools=[tool])
    assert without.budget_left - with_none.budget_left == 6
    assert with_one.budget_left < with_none.budget_left
    assert with_one.to_request()["tool_choice"] == "auto"


def test_a_reply_to_nothing_is_replaced_by_the_users_default_words():
    plan = build(history=chat(">q", "a"), generation_type="quiet", preset=preset(send_if_empty=" {{user}} nods "))
    assert contents(plan)[-1] == " {{user}} nods "
    assert plan.blocks[-1].metadata["identifier"] == "emptyUserMessageReplacement"


def test_a_response_as_large_as_the_context_leaves_nothing():
    plan = build(preset=preset(openai_max_context=100, openai_max_tokens=100), on_overflow="return")
    assert plan.blocks == ()
    assert plan.budget_left == -3


def test_a_quiet_generation_may_have_its_own_length():
    plan = build(generation_type="quiet", quiet_prompt="Q", response_length=77)
    assert plan.to_request()["max_tokens"] == 77


def test_a_dry_run_sends_nothing_and_squashes_nothing():
    plan = build(message="typed", dry_run=True, preset=preset(squash_system_messages=True))
    assert "typed" not in contents(plan)
    assert len(plan.messages) == len(plan.blocks)


def test_system_roles_become_user_for_the_first_reasoning_models():
    plan = build(preset=preset(openai_model="o1"))
    assert "system" not in {message["role"] for message in request_messages(plan)}
    assert "system" in {block.role for block in plan.blocks}


def test_even_an_empty_line_ends_the_assembly_once_reservations_have_eaten_the_budget():
    prompts = preset(
        new_chat_prompt="",
        continue_nudge_prompt="Go on and on. " * 20,
        openai_max_context=400,
        openai_max_tokens=300,
        prompt_order=order("chatHistory"),
    )
    plan = build(preset=prompts, history=chat(">Hi.", "Well"), generation_type="continue", on_overflow="return")
    assert plan.overflow is not None
    assert "New Chat" in plan.overflow
    assert plan.budget_left < 0


def squashed_contents(between: dict[str, object]) -> list[str]:
    prompts = preset(
        squash_system_messages=True,
        prompts=[custom("one", "One."), {**custom("x", ""), **between}, custom("two", "Two.")],
        prompt_order=order("one", "x", "two", "chatHistory"),
    )
    return [str(message["content"]) for message in request_messages(build(preset=prompts))]


def test_an_empty_user_prompt_keeps_system_messages_apart():
    assert squashed_contents({"role": "user"})[:2] == ["One.", "Two."]
    assert squashed_contents({"role": "assistant", "content": "{{// nothing}}"})[:2] == ["One.", "Two."]


def test_an_empty_system_prompt_does_not_keep_system_messages_apart():
    assert squashed_contents({"role": "system"})[0] == "One.\nTwo."
