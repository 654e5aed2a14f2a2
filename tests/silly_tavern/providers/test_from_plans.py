"""From a plan to the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import Settings, TextPlan
from tavernkit.silly_tavern.providers import (
    CHAT_SOURCES,
    TEXT_BACKENDS,
    Connection,
    TextInput,
    chat_request,
    text_page_body,
    text_request,
)
from tests.silly_tavern.scene import build, preset

WHERE: dict[str, Any] = {
    "custom_url": "http://models.example/v1",
    "azure_base_url": "https://orla.azure.example",
    "azure_deployment_name": "tide",
    "workers_ai_account_id": "a",
}


@pytest.mark.parametrize("source", [source for source in CHAT_SOURCES if source != "cometapi"])
def test_the_body_of_a_plan_becomes_a_request(source: str) -> None:
    plan = build(preset=preset(chat_completion_source=source, temperature=0.5, **WHERE).with_model("m"))
    request = chat_request(plan.to_request(), Connection(key="k3y"))
    assert "Lyra keeps the lamp." in str(request.body)
    config: Any = request.body.get("generationConfig", request.body)
    assert config["temperature"] == 0.5


def text_plan(**changes: Any) -> TextPlan:
    plan = build(dialect="text", **changes)
    assert isinstance(plan, TextPlan)
    return plan


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
def test_the_prompt_of_a_text_plan_becomes_a_request(backend: str) -> None:
    plan = text_plan()
    given = TextInput.from_plan(plan, server="http://h:1")
    body = text_page_body(backend, {}, given)
    request: Any = text_request(backend, body, Connection(key="k3y")).body
    assert request.get("prompt", request.get("input")) == plan.prompt
    assert given.stop_strings == plan.stop_strings
    assert (given.max_context, given.max_tokens) == (
        plan.llm_options["truncation_length"],
        plan.llm_options["max_tokens"],
    )


def test_the_guidance_of_a_chat_wins_over_the_settings() -> None:
    settings: Any = {"guidance_scale": 3, "negative_prompt": "mine"}
    unguided = text_page_body("tabby", settings, TextInput.from_plan(text_plan()))
    assert (unguided["guidance_scale"], unguided["negative_prompt"]) == (3, "mine")
    metadata = {"cfg_guidance_scale": 1.5, "cfg_negative_prompt": "Boring."}
    plan = text_plan(chat_metadata=metadata)
    guided = text_page_body("tabby", settings, TextInput.from_plan(plan))
    assert (guided["guidance_scale"], guided["negative_prompt"]) == (1.5, plan.negative_prompt)


def test_a_quiet_request_is_not_streamed() -> None:
    settings = Settings.from_json({"textgenerationwebui_settings": {"streaming": True}})
    plan = text_plan(settings=settings)
    assert TextInput.from_plan(plan).stream
    quiet = TextInput.from_plan(plan, generation_type="quiet")
    assert (quiet.stream, quiet.generation_type) == (False, "quiet")
