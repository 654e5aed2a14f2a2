from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import PowerUser, Tool
from tavernkit.silly_tavern._chat_completion.plan import (
    RequestInput,
    page_input,
    request_fields,
    system_becomes_user,
)
from tests.silly_tavern.scene import preset

SAMPLERS = {"temperature", "top_p", "frequency_penalty", "presence_penalty"}


def fields(kind: str = "normal", stops: str = "", tools: tuple[Tool, ...] = (), **keys: Any) -> dict[str, Any]:
    given = RequestInput(
        generation_type=kind,
        user_name="Mira",
        character_name="Lyra",
        group_names=(),
        max_tokens=300,
        tools=tools,
        expand=lambda text: text.replace("{{user}}", "Mira"),
        power_user=PowerUser(custom_stopping_strings=stops),
        warn=WarningLog(),
    )
    chosen = preset(**keys)
    return request_fields(chosen, page_input(chosen, given))


MANY = '["a","b","c","d","e","f","a rather long stop string"]'


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("openai", 4),
        ("claude", 7),
        ("mistralai", 7),
        ("chutes", 7),
        ("makersuite", 5),
        ("cohere", 5),
        ("zai", 1),
        ("groq", 4),
    ],
)
def test_each_source_takes_so_many_stop_strings(source: str, count: int):
    assert len(fields(stops=MANY, chat_completion_source=source)["stop"]) == count


def test_google_takes_only_short_stop_strings():
    assert fields(stops='["a rather long stop string","b"]', chat_completion_source="makersuite")["stop"] == ["b"]


def test_no_stop_strings_are_no_key_or_an_empty_list():
    assert "stop" not in fields()
    assert fields(chat_completion_source="claude")["stop"] == []
    assert "stop" not in fields(stops=MANY, chat_completion_source="perplexity")


@pytest.mark.parametrize("text", ["{", "3", '{"a": 1}', '["", 3]', '["a", NaN]'])
def test_stop_strings_that_cannot_be_read_count_as_none(text: str):
    assert "stop" not in fields(stops=text)


def test_stop_strings_are_expanded():
    assert fields(stops='["\\n{{user}}:"]')["stop"] == ["\nMira:"]


@pytest.mark.parametrize("kind", ["quiet", "impersonate", "continue"])
def test_several_replies_are_asked_for_only_where_they_make_sense(kind: str):
    assert fields(n=3)["n"] == 3
    assert "n" not in fields(kind, n=3)
    assert "n" not in fields(n=3, chat_completion_source="claude")


def test_tools_are_not_sent_with_several_replies():
    tools = (Tool("t"),)
    assert "tools" in fields(tools=tools, function_calling=True)
    assert "tools" not in fields(tools=tools, function_calling=True, n=2)
    assert "tools" not in fields("quiet", tools=tools, function_calling=True)


def test_a_quiet_generation_is_not_streamed():
    assert fields(stream_openai=True)["stream"] is True
    assert fields("quiet", stream_openai=True)["stream"] is False


@pytest.mark.parametrize(
    ("source", "sent"), [("openai", True), ("claude", False), ("deepseek", False), ("makersuite", True)]
)
def test_the_seed_goes_to_sources_that_take_it(source: str, sent: bool):
    assert ("seed" in fields(seed=0, chat_completion_source=source)) is sent
    assert "seed" not in fields(seed=-1, chat_completion_source=source)


def test_workers_take_a_seed_from_one_on():
    assert "seed" not in fields(seed=0, chat_completion_source="workers_ai")
    assert fields(seed=1, chat_completion_source="workers_ai")["seed"] == 1


@pytest.mark.parametrize(
    ("keys", "effort"),
    [
        ({"reasoning_effort": "auto"}, None),
        ({"reasoning_effort": "min"}, "low"),
        ({"reasoning_effort": "max"}, "high"),
        ({"reasoning_effort": "min", "openai_model": "gpt-5"}, "min"),
        ({"reasoning_effort": "min", "openai_model": "gpt-5.4"}, "none"),
        ({"reasoning_effort": "max", "openai_model": "gpt-5.6-terra"}, "xhigh"),
        ({"reasoning_effort": "max", "openai_model": "gpt-6-astra-1"}, "max"),
        ({"reasoning_effort": "auto", "chat_completion_source": "claude"}, "auto"),
        ({"reasoning_effort": "max", "chat_completion_source": "deepseek"}, "max"),
        ({"reasoning_effort": "medium", "chat_completion_source": "deepseek"}, "high"),
        ({"reasoning_effort": "max", "chat_completion_source": "fireworks"}, "max"),
        ({"reasoning_effort": "high", "chat_completion_source": "xai"}, None),
        ({"reasoning_effort": "high", "chat_completion_source": "xai", "xai_model": "grok-3-mini"}, "high"),
        ({"reasoning_effort": "high", "chat_completion_source": "azure_openai", "azure_openai_model": "gpt-4"}, None),
        ({"reasoning_effort": "min", "chat_completion_source": "openrouter", "show_thoughts": False}, "none"),
        ({"reasoning_effort": "max", "chat_completion_source": "custom", "custom_model": "koboldcpp/x"}, "xhigh"),
    ],
)
def test_reasoning_effort_is_translated(keys: dict[str, Any], effort: str | None):
    assert fields(**keys).get("reasoning_effort") == effort


@pytest.mark.parametrize("model", ["o1", "o1-mini", "o3", "o4-mini", "gpt-5", "gpt-5.5"])
def test_reasoning_models_take_no_samplers(model: str):
    found = fields(openai_model=model, stops=MANY)
    assert not SAMPLERS & set(found)
    assert "stop" not in found
    assert found["max_completion_tokens"] == 300
    assert "max_tokens" not in found


def test_some_models_of_gpt_5_keep_samplers():
    assert set(fields(openai_model="gpt-5-chat-latest")) >= SAMPLERS
    partly = fields(openai_model="gpt-5.1")
    assert "temperature" in partly
    assert "frequency_penalty" not in partly
    assert "temperature" not in fields(openai_model="gpt-5.1", reasoning_effort="high")


def test_the_first_reasoning_models_take_no_system_role():
    assert system_becomes_user(preset(openai_model="o1-pro"))
    assert system_becomes_user(preset(chat_completion_source="openrouter", openrouter_model="openai/o1"))
    assert not system_becomes_user(preset(openai_model="o3"))
    assert not system_becomes_user(preset(chat_completion_source="custom", custom_model="o1"))


def test_claude_gets_its_prefill_unless_it_continues_or_is_quiet():
    claude: dict[str, Any] = {"chat_completion_source": "claude", "assistant_prefill": "As {{user}}"}
    assert fields(**claude)["assistant_prefill"] == "As Mira"
    assert "assistant_prefill" not in fields("quiet", **claude)
    assert "assistant_prefill" not in fields("continue", continue_prefill=True, **claude)
    assert fields("impersonate", assistant_impersonation="I,", **claude)["assistant_prefill"] == "I,"


def test_the_router_gets_its_own_fields():
    found = fields(chat_completion_source="openrouter", top_a=0.2)
    assert [found[key] for key in ("top_a", "use_fallback", "provider", "allow_fallbacks", "middleout")] == [
        0.2,
        False,
        [],
        True,
        "on",
    ]


def test_cohere_clamps_its_samplers():
    found = fields(chat_completion_source="cohere", top_p=1, frequency_penalty=-1, presence_penalty=2)
    assert (found["top_p"], found["frequency_penalty"], found["presence_penalty"]) == (0.99, 0, 1)


def test_grok_with_reasoning_takes_no_penalties_and_no_stop():
    found = fields(chat_completion_source="xai", xai_model="grok-4", stops=MANY)
    assert not {"frequency_penalty", "presence_penalty", "stop"} & set(found)
    assert "stop" in fields(chat_completion_source="xai", xai_model="grok-4-fast-non-reasoning", stops=MANY)


SEEDED = """openai azure_openai openrouter mistralai custom cohere groq electronhub nanogpt xai pollinations aimlapi
    vertexai makersuite chutes"""
OTHERS = "claude perplexity deepseek zai moonshot fireworks cometapi siliconflow ai21 minimax"
SOURCES = {*SEEDED.split(), *OTHERS.split()}


@pytest.mark.parametrize(
    ("key", "keys", "sources"),
    [
        ("seed", {"seed": 0}, SEEDED),
        ("n", {"n": 2}, "openai azure_openai custom xai aimlapi moonshot"),
        (
            "top_k",
            {"claude_model": "claude-3-5-haiku"},
            "claude openrouter makersuite vertexai cohere perplexity nanogpt electronhub",
        ),
        ("min_p", {}, "openrouter nanogpt chutes"),
        ("repetition_penalty", {}, "openrouter nanogpt chutes"),
        ("azure_base_url", {}, "azure_openai"),
        ("vertexai_region", {}, "vertexai"),
        ("use_sysprompt", {}, "claude makersuite vertexai"),
        ("assistant_prefill", {}, "claude"),
        ("stop", {}, "claude mistralai chutes makersuite vertexai cohere zai"),
        ("safe_prompt", {}, "mistralai"),
        ("custom_url", {}, "custom"),
        ("zai_endpoint", {}, "zai"),
        ("middleout", {}, "openrouter"),
        ("verbosity", {"verbosity": "low"}, " ".join(sorted(SOURCES))),
        ("verbosity", {"verbosity": "auto"}, ""),
        (
            "reasoning_effort",
            {"reasoning_effort": "auto"},
            "claude mistralai makersuite vertexai cohere groq zai moonshot nanogpt siliconflow ai21 minimax",
        ),
    ],
)
def test_a_field_goes_to_its_sources_only(key: str, keys: dict[str, Any], sources: str):
    found = {source for source in SOURCES if key in fields(chat_completion_source=source, **keys)}
    assert found == set(sources.split())


@pytest.mark.parametrize(
    ("source", "model", "penalties", "stop"),
    [
        ("xai", "grok-3-beta", True, True),
        ("xai", "grok-3-mini", False, False),
        ("xai", "grok-4-0709", False, False),
        ("xai", "grok-code-fast-1", False, False),
        ("xai", "grok-4-fast-non-reasoning", False, True),
        ("zai", "glm-4.6", False, True),
        ("groq", "grok-4", True, True),
    ],
)
def test_penalties_and_stops_depend_on_the_model(source: str, model: str, penalties: bool, stop: bool):
    keys: dict[str, Any] = {"chat_completion_source": source, f"{source}_model": model}
    found = fields(stops='["a"]', **keys)
    assert ("frequency_penalty" in found, "presence_penalty" in found, "stop" in found) == (penalties, penalties, stop)


@pytest.mark.parametrize(
    ("source", "model", "offered"),
    [
        ("openai", "gpt-4", True),
        ("openai", "o3", True),
        ("openai", "o1-pro", False),
        ("openrouter", "openai/o1", False),
        ("openai", "gpt-5", True),
        ("openai", "gpt-5-chat-latest", False),
        ("openai", "gpt-6-astra-mini", False),
        ("custom", "gpt-6-astra-mini", True),
    ],
)
def test_tools_are_offered_to_models_that_take_them(source: str, model: str, offered: bool):
    keys: dict[str, Any] = {"function_calling": True, "chat_completion_source": source, f"{source}_model": model}
    found = fields(tools=(Tool("wx"),), **keys)
    assert ("tools" in found, "tool_choice" in found) == (offered, offered)


@pytest.mark.parametrize(
    ("model", "streamed"), [("gpt-4", True), ("o1-mini", True), ("o1", False), ("o1-2024-12-17", False)]
)
def test_the_first_reasoning_models_are_not_streamed(model: str, streamed: bool):
    assert fields(stream_openai=True, openai_model=model)["stream"] is streamed


def test_plans_hold_no_proxy_and_no_password():
    found = fields(chat_completion_source="claude", reverse_proxy="https://p.example", proxy_password="pw")
    assert not {"reverse_proxy", "proxy_password"} & found.keys()
