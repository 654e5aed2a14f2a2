"""Families of models, and the fields that few recordings show."""

from __future__ import annotations

import pytest

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern.providers import Connection, ProviderRequest, SillyTavernConfig, chat_request

CONNECTION = Connection(key="k3y")
ADAPTIVE = SillyTavernConfig(claude_enable_adaptive_thinking=True)
NOT_ADAPTIVE = SillyTavernConfig(claude_enable_adaptive_thinking=False)
TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "wx", "description": "w", "parameters": {"$schema": "s", "type": "object", "properties": {}}},
}
SCHEMA: JsonObject = {"name": "out", "value": {"type": "object"}}


def request(source: str, model: str, config: SillyTavernConfig = NOT_ADAPTIVE, **fields: Json) -> ProviderRequest:
    body: JsonObject = {
        "chat_completion_source": source,
        "model": model,
        "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}],
        "max_tokens": 4000,
        "temperature": 0.9,
        "top_p": 0.95,
        "top_k": 40,
        "reasoning_effort": "auto",
        "custom_url": "http://models.example/v1",
    }
    return chat_request(body | fields, CONNECTION, config)


def claude(model: str, config: SillyTavernConfig = NOT_ADAPTIVE, **fields: Json) -> JsonObject:
    return request("claude", model, config, **fields).body


def google(model: str, **fields: Json) -> JsonObject:
    return request("makersuite", model, NOT_ADAPTIVE, **fields).body


def last_role(body: JsonObject) -> object:
    messages = body["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    return last["role"]


def samplers(body: JsonObject) -> list[str]:
    return [key for key in ("temperature", "top_p", "top_k") if key in body]


@pytest.mark.parametrize(
    "model", ["claude-3-5-sonnet-latest", "claude-3-5-haiku-20241022", "claude-opus-4-0", "claude-sonnet-4-20250514"]
)
def test_claude_models_with_free_sampling_keep_it_and_the_prefill(model: str) -> None:
    body = claude(model)
    assert samplers(body) == ["temperature", "top_p", "top_k"]
    assert last_role(body) == "assistant"


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-1", "claude-opus-4-5", "claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-5-1"],
)
def test_claude_models_with_one_sampler_keep_the_prefill(model: str) -> None:
    body = claude(model)
    assert samplers(body) == ["top_p", "top_k"]
    assert samplers(claude(model, top_p=1)) == ["temperature", "top_k"]
    assert last_role(body) == "assistant"


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-6"])
def test_claude_models_of_4_6_refuse_a_prefill_and_think_adaptively_if_allowed(model: str) -> None:
    assert last_role(claude(model)) == "user"
    assert claude(model, reasoning_effort="low")["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    body = claude(model, ADAPTIVE, reasoning_effort="min", include_reasoning=True)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "low"}
    assert samplers(body) == ["top_p"]


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5-20260101", "claude-fable-1"]
)
def test_newest_claude_models_have_no_sampling_no_prefill_and_adaptive_thinking(model: str) -> None:
    body = claude(model)
    assert not samplers(body)
    assert "thinking" not in body
    assert last_role(body) == "user"
    asked = claude(model, reasoning_effort="max", include_reasoning=True)
    assert asked["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert asked["output_config"] == {"effort": "max"}
    assert claude(model, reasoning_effort="max")["thinking"] == {"type": "adaptive"}


def test_a_small_answer_of_a_thinking_claude_gets_room_to_think() -> None:
    for tokens, sent in ((1024, 2048), (300, 1324), (1025, 1025)):
        body = claude("claude-3-7-sonnet-latest", max_tokens=tokens, reasoning_effort="min")
        assert body["max_tokens"] == sent
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}


def test_a_prefill_is_not_counted_when_caching_at_depth_even_if_it_is_sent_as_user() -> None:
    config = SillyTavernConfig(claude_caching_at_depth=0)
    messages = claude("claude-opus-4-7", config)["messages"]
    mark = {"type": "ephemeral", "ttl": "5m"}
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "u", "cache_control": mark}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
    ]


@pytest.mark.parametrize(
    "config", [SillyTavernConfig(claude_caching_at_depth=2), SillyTavernConfig(claude_enable_system_prompt_cache=True)]
)
def test_any_caching_asks_for_the_caching_betas(config: SillyTavernConfig) -> None:
    headers = request("claude", "claude-3-5-sonnet-latest", config, tools=[TOOL], tool_choice="auto").headers
    assert headers["anthropic-beta"].split(",") == [
        "output-128k-2025-02-19",
        "context-1m-2025-08-07",
        "tools-2024-05-16",
        "prompt-caching-2024-07-31",
        "extended-cache-ttl-2025-04-11",
    ]


def test_claude_tools_have_nothing_that_was_not_given() -> None:
    body = claude("claude-3-5-sonnet-latest", tools=[TOOL, {"type": "function", "function": {"name": "roll"}}])
    assert body["tools"] == [
        {"name": "wx", "description": "w", "input_schema": {"type": "object", "properties": {}}},
        {"name": "roll"},
    ]
    assert body["tool_choice"] == {}
    assert claude("claude-3-5-sonnet-latest", tools=[TOOL], tool_choice="none")["tool_choice"] == {"type": "none"}


def test_claude_with_tools_and_a_schema_is_forced_to_the_schema() -> None:
    body = claude("claude-3-5-sonnet-latest", tools=[TOOL], tool_choice="auto", json_schema=SCHEMA)
    tools = body["tools"]
    assert isinstance(tools, list)
    assert [tool["name"] for tool in tools if isinstance(tool, dict)] == ["wx", "out"]
    assert body["tool_choice"] == {"type": "tool", "name": "out"}


def test_google_streams_as_server_sent_events_of_the_configured_version() -> None:
    config = SillyTavernConfig(gemini_api_version="v1")
    given = request("makersuite", "gemini-2.5-pro", config, stream=True)
    root = "https://generativelanguage.googleapis.com"
    assert given.url == f"{root}/v1/models/gemini-2.5-pro:streamGenerateContent?key=k3y&alt=sse"
    assert given.masked().url.endswith("?key=<key>&alt=sse")


@pytest.mark.parametrize("model", ["gemma-3-27b-it", "gemini-2.5-flash-image"])
def test_google_models_without_system_instruction_get_it_as_a_turn_and_no_tools(model: str) -> None:
    messages: list[Json] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    body = google(model, messages=messages, use_sysprompt=True, request_images=True, tools=[TOOL])
    assert body["contents"] == [{"role": "user", "parts": [{"text": "s\n\nu"}]}]
    assert "systemInstruction" not in body
    assert "tools" not in body


@pytest.mark.parametrize(
    ("choice", "mode"), [("none", "NONE"), ("required", "ANY"), ("auto", "AUTO"), ("other", None), (None, None)]
)
def test_google_tool_choices(choice: Json, mode: str | None) -> None:
    body = google("gemini-2.5-pro", tools=[TOOL], tool_choice=choice)
    assert body.get("toolConfig") == (None if mode is None else {"functionCallingConfig": {"mode": mode}})
    assert body["tools"] == [{"function_declarations": [{"name": "wx", "description": "w"}]}]


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-flash", {"includeThoughts": True, "thinkingBudget": 2000}),
        ("gemini-2.5-flash-lite", {"includeThoughts": True, "thinkingBudget": 2000}),
        ("gemini-2.5-pro", {"includeThoughts": True, "thinkingBudget": 2000}),
        ("gemini-3-pro-preview", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-3.7-flash", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-2.0-flash", None),
    ],
)
def test_google_thinks_where_it_can(model: str, thinking: object) -> None:
    config = google(model, reasoning_effort="high", include_reasoning=True)["generationConfig"]
    assert isinstance(config, dict)
    assert config.get("thinkingConfig") == thinking


def test_google_answers_by_a_schema_with_a_seed_and_stops() -> None:
    config = google("gemini-2.0-flash", json_schema=SCHEMA, seed=3, stop=["\n"])["generationConfig"]
    assert config == {
        "stopSequences": ["\n"],
        "candidateCount": 1,
        "maxOutputTokens": 4000,
        "temperature": 0.9,
        "topP": 0.95,
        "topK": 40,
        "seed": 3,
        "responseMimeType": "application/json",
        "responseSchema": {"type": "object"},
    }


@pytest.mark.parametrize("source", ["openai", "custom", "mistralai", "xai"])
def test_openai_like_sources_ask_for_a_schema_as_a_response_format(source: str) -> None:
    described = {"name": "out", "strict": True, "schema": {"type": "object"}}
    body = request(source, "m", json_schema=SCHEMA).body
    assert body["response_format"] == {"type": "json_schema", "json_schema": described}
    assert "response_format" not in request(source, "m").body


def test_mistral_sends_seed_stop_and_safe_prompt_when_they_say_something() -> None:
    body = request("mistralai", "m", seed=0, stop=["\n"], safe_prompt=False).body
    assert (body["random_seed"], body["stop"], body["safe_prompt"]) == (0, ["\n"], False)
    assert not {"random_seed", "stop", "seed"} & request("mistralai", "m", seed=-1, stop=[]).body.keys()


@pytest.mark.parametrize(("effort", "sent"), [("high", "high"), ("max", "low"), ("minimal", "low")])
def test_xai_knows_two_efforts(effort: str, sent: str) -> None:
    assert request("xai", "grok-3-mini", reasoning_effort=effort).body["reasoning_effort"] == sent
    assert "reasoning_effort" not in request("xai", "grok-4", reasoning_effort="").body


def test_what_the_page_decided_for_openai_reaches_openai() -> None:
    body = request("openai", "gpt-5", reasoning_effort="low", verbosity="high", max_completion_tokens=9, seed=1).body
    assert (body["reasoning_effort"], body["verbosity"], body["max_completion_tokens"], body["seed"]) == (
        "low",
        "high",
        9,
        1,
    )


@pytest.mark.parametrize(
    "exclude", ["- top_p\n- temperature", "top_p: true\ntemperature: null", "[top_p, temperature]"]
)
def test_custom_exclusions_are_a_list_or_a_mapping(exclude: str) -> None:
    body = request("custom", "m", custom_exclude_body=exclude, custom_include_body="top_p: 1\nextra: {a: yes}").body
    assert samplers(body) == ["top_k"]
    assert body["extra"] == {"a": "yes"}


def test_one_custom_exclusion_is_just_a_name() -> None:
    assert samplers(request("custom", "m", custom_exclude_body="top_p").body) == ["temperature", "top_k"]


def test_custom_headers_are_texts() -> None:
    given = request("custom", "m", custom_include_headers="- X-A: 1\n- X-B: true")
    assert given.headers == {
        "content-type": "application/json",
        "authorization": "Bearer k3y",
        "x-a": "1",
        "x-b": "true",
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_budget_of_no_number_of_tokens_is_the_least_one(number: float) -> None:
    body = claude("claude-3-7-sonnet-latest", max_tokens=number, reasoning_effort="high")
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}


def test_half_a_surrogate_pair_breaks_no_request(caplog: pytest.LogCaptureFixture) -> None:
    tool: JsonObject = {"role": "tool", "tool_call_id": "\ud800", "content": "r"}
    other: JsonObject = {**tool, "tool_call_id": "\ufffd"}
    assert request("mistralai", "m", messages=[tool]).body == request("mistralai", "m", messages=[other]).body
    body = request("custom", "m", custom_include_body="a: \ud800").body
    assert body["a"] == "\ufffd\ufffd\ufffd"
    assert "not UTF-8" in caplog.text


@pytest.mark.parametrize(
    ("model", "fields", "thinking"),
    [
        ("claude-3-7-sonnet-latest", {"reasoning_effort": "high"}, {"type": "enabled", "budget_tokens": 21333}),
        (
            "claude-opus-4-1",
            {"reasoning_effort": "high", "stream": True},
            {"type": "enabled", "budget_tokens": 30000},
        ),
        ("claude-sonnet-4-6", {"reasoning_effort": "high"}, {"type": "adaptive"}),
        ("claude-sonnet-4-6", {}, None),
        ("claude-3-5-sonnet-latest", {"reasoning_effort": "high"}, None),
        ("claude-3-7-sonnet-latest", {}, None),
    ],
)
def test_adaptive_thinking_is_for_the_models_that_know_it(
    model: str, fields: dict[str, Json], thinking: object
) -> None:
    assert claude(model, ADAPTIVE, max_tokens=60000, **fields).get("thinking") == thinking


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-3-pro", {"includeThoughts": False}),
        ("gemini-3-flash", {"includeThoughts": False}),
        ("gemini-2.5-flash", {"includeThoughts": False, "thinkingBudget": -1}),
    ],
)
def test_google_is_left_to_think_by_itself_without_an_effort(model: str, thinking: object) -> None:
    config = google(model)["generationConfig"]
    assert isinstance(config, dict)
    assert config["thinkingConfig"] == thinking


def test_post_processing_comes_before_the_sources_own_conversion() -> None:
    messages: list[Json] = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "name": "Lyra", "content": "a"},
        {"role": "system", "content": "t"},
    ]
    body = claude(
        "claude-3-5-sonnet-latest",
        messages=messages,
        use_sysprompt=True,
        assistant_prefill="Well, ",
        custom_prompt_post_processing="strict",
    )
    assert body["system"] == [{"type": "text", "text": "s"}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "[Start a new chat]"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Lyra: a"}]},
        {"role": "user", "content": [{"type": "text", "text": "t"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Well,"}]},
    ]


@pytest.mark.parametrize(("tools", "prefixed"), [([], True), ([TOOL], False)])
def test_deepseek_goes_on_with_an_answer_unless_it_may_call_tools(tools: list[Json], prefixed: bool) -> None:
    messages = request("deepseek", "deepseek-chat", tools=tools, tool_choice="auto").body["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    assert ("prefix" in last) is prefixed


def test_mistral_is_sent_no_seed_that_was_not_given() -> None:
    assert "random_seed" not in request("mistralai", "m").body


def test_infinity_in_yaml_is_text_in_a_header_and_null_in_the_body() -> None:
    yaml = "A: .inf\nB: -.Inf\nC: .nan\nD: 1e400"
    sent = request("custom", "any", custom_include_headers=yaml, custom_include_body="A: .inf")
    assert [sent.headers[name] for name in "abcd"] == ["Infinity", "-Infinity", "NaN", "Infinity"]
    assert sent.body["A"] is None


def test_claude_does_not_think_adaptively_unless_the_configuration_says_so() -> None:
    assert SillyTavernConfig().claude_enable_adaptive_thinking is False
    assert SillyTavernConfig.from_yaml({"claude": {"enableAdaptiveThinking": True}}).claude_enable_adaptive_thinking
    fields: dict[str, Json] = {"reasoning_effort": "min", "include_reasoning": True}
    assert claude("claude-opus-4-6", SillyTavernConfig(), **fields) == claude("claude-opus-4-6", NOT_ADAPTIVE, **fields)
    assert claude("claude-opus-4-6", SillyTavernConfig(), **fields) != claude("claude-opus-4-6", ADAPTIVE, **fields)
