from __future__ import annotations

from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tests.risu_ai.building.scene import STANDARD, build, character, contents, preset


def test_escaped_characters_are_turned_back_when_messages_are_made():
    plan = build(preset=preset(main_prompt="A{{;}}"))
    assert "\ue9bf" in contents(plan)[0]
    assert plan.to_messages()[0]["content"] == "A;\n\nA smith."


def test_the_request_is_what_risu_ai_would_post():
    plan = build(character=character(exampleMessage="{{user}}: a\n{{char}}: b"), preset=preset(STANDARD))
    request = plan.to_request()
    assert [message.get("name") for message in request["messages"] if isinstance(message, dict)][:3] == [  # type: ignore[union-attr]
        *(None, "example_user", "example_assistant")
    ]
    assert all(message["content"] != "[Start a new chat]" for message in request["messages"])  # type: ignore[index, union-attr, call-overload]
    assert request["model"] == "gpt-4o"


def test_a_plan_becomes_text_by_the_presets_format():
    assert build().to_text().endswith("What now?\n\nMira:")
    chat_ml = build(preset=preset(use_instruct_prompt=True)).to_text()
    assert chat_ml.endswith("<|im_start|>user\nWhat now?<|im_end|>\n<|im_start|>assistant\n")
    own = build(
        preset=preset(use_instruct_prompt=True, instruct_chat_template="jinja", jinja_template="{{ risu_char }}")
    )
    assert own.to_text() == "Mira"


def test_other_dialects_work_on_the_same_plan():
    payload = build().to_messages("anthropic")
    assert "Main." in str(payload["system"])


def test_equal_builds_have_equal_fingerprints():
    assert build().fingerprint() == build().fingerprint()
    assert build().fingerprint() != build(preset=preset(main_prompt="Other.")).fingerprint()


def test_blocks_give_back_the_messages_they_were_made_of():
    message = PromptMessage(role=None, content="x", memo="m", attr=("nameAdded",), thoughts=("t",), cache_point=True)
    assert PromptMessage.from_json(message.to_json()).to_json() == message.to_json()
    plan = build(preset=preset([*STANDARD, {"type": "cache", "depth": 1, "role": "user"}]))
    assert [each.cache_point for each in plan.prompt_messages()].count(True) == 1


def test_the_plan_knows_greeting_and_chat():
    plan = build()
    assert (plan.greeting, plan.greeting_index) == ("Hello.", 0)
    assert len(plan.chat.messages) == 3
    assert plan.to_dict()["greeting"] == "Hello."


def test_a_text_models_reply_is_cut_where_somebody_else_speaks() -> None:
    plan = build()
    assert {"Ann:", "Mira:", "system:"} <= set(plan.stop_strings)
    assert plan.cut_reply("Iron, mostly.\nAnn: And steel?") == "Iron, mostly."
    assert plan.cut_reply(" Iron. ") == " Iron. "
