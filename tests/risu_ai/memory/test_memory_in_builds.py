from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tavernkit.risu_ai import Builder
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.risu_ai._plan import RisuPlan
from tests.risu_ai.building.scene import STANDARD, Characters, build, character, contents, preset
from tests.risu_ai.memory.chats import Summariser

CHAT: dict[str, Any] = {
    "message": [
        {"role": "user" if n % 2 else "char", "data": f"{n} {'word ' * 10}", "chatId": f"m{n}"} for n in range(8)
    ],
    "fmIndex": -1,
}


def remembered(asked: Summariser, template: list[dict[str, Any]] | None = None, **changes: Any) -> RisuPlan:
    return build(
        character=character(supaMemory=True),
        preset=preset(template, max_context=500, max_response=0),
        **{
            "memory": MemoryModels(summarize=asked, embed=lambda texts: [[1.0] for _ in texts]),
            "history": CHAT,
            **changes,
        },
        token_estimator=Characters(),
    )


def test_a_summary_without_a_card_stands_framed_before_the_chat_and_is_not_removable() -> None:
    asked = Summariser("They talked.")
    plan = remembered(asked, STANDARD, settings=Settings.from_json({"supaModelType": "subModel"}))
    assert "<Previous Conversation>They talked.</Previous Conversation>" in contents(plan)
    assert plan.chat.raw["supaMemoryData"] == f"{plan.last_memory}\nThey talked."
    removable = {message.memo: message.removable for message in plan.prompt_messages()}
    assert removable["supaMemory"] is False
    assert removable["m7"] is True


def test_a_chat_ml_prompt_sees_the_users_macros() -> None:
    asked = Summariser("They talked.")
    prompt = "<|im_start|>system\nNames: {{user}}.<|im_end|><|im_start|>user\n{{slot}}<|im_end|>"
    settings = Settings.from_json({"supaModelType": "subModel", "supaMemoryPrompt": prompt})
    remembered(asked, STANDARD, settings=settings)
    assert asked.requests[0][0]["content"] == "Names: Ann."


def test_a_summary_names_the_persona_that_the_chat_is_bound_to() -> None:
    asked = Summariser("They talked.")
    settings = Settings.from_json({"supaModelType": "subModel", "personas": [{"id": "p", "name": "Cleo"}]})
    remembered(asked, STANDARD, settings=settings, history={**CHAT, "bindedPersona": "p"})
    assert "Cleo: 1 word" in str(asked.requests[0][0]["content"])


def test_memory_that_only_searches_needs_no_summariser() -> None:
    settings = Settings.from_json({"hanuraiEnable": True, "hanuraiTokens": 100})
    models = MemoryModels(embed=lambda texts: [[1.0] for _ in texts])
    plan = remembered(Summariser("unused"), STANDARD, settings=settings, memory=models)
    assert "supaMemory" in [message.memo for message in plan.prompt_messages()]
    assert plan.warnings == ()


def test_a_plain_prompt_is_sent_as_it_is_written() -> None:
    asked = Summariser("They talked.")
    settings = Settings.from_json({"supaModelType": "subModel", "supaMemoryPrompt": "For {{user}}."})
    remembered(asked, STANDARD, settings=settings)
    assert asked.requests[0][-1] == {"role": "system", "content": "For {{user}}."}


def test_without_a_template_the_newest_message_stays_behind_the_memory() -> None:
    asked = Summariser("They talked.")
    plan = remembered(asked, settings=Settings.from_json({"supaModelType": "subModel"}))
    texts = contents(plan)
    memory = next(place for place, text in enumerate(texts) if "They talked." in text)
    assert next(place for place, text in enumerate(texts) if text.startswith("7 word")) > memory


def test_summaries_of_a_send_that_does_not_fit_are_stored() -> None:
    settings = {"hypaV3": True, "hypaV3Presets": [{"settings": {"maxChatsPerSummary": 2}}], "hypaV3PresetId": 0}
    sender = Builder(
        character=character(supaMemory=True),
        preset=preset(STANDARD, max_context=200, max_response=0),
        memory=MemoryModels(summarize=Summariser("S"), embed=lambda texts: [[1.0] for _ in texts]),
        token_estimator=Characters(),
        settings=Settings.from_json(settings),
    )
    result = sender.send(lambda _: "never asked", history=CHAT)
    assert result.error is not None
    assert result.error.code == "memory_cannot_summarize"
    stored = result.chat.raw["hypaV3Data"]
    assert isinstance(stored, Mapping)
    assert len(stored["summaries"]) > 1  # type: ignore[arg-type]
