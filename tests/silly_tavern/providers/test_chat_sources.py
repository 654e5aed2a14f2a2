"""Chat-completion sources: addresses, keys, refusals and schemas that recordings leave open."""

from __future__ import annotations

import contextlib
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._values import Json
from tavernkit.errors import LimitExceededError, TavernKitError
from tavernkit.silly_tavern.providers import (
    CHAT_SOURCES,
    Connection,
    ProviderRequest,
    RequestRefusedError,
    SillyTavernConfig,
    chat_request,
)
from tavernkit.silly_tavern.providers._chat.models import CLAUDE_MODELS, EFFORT_MODELS, GOOGLE_MODELS, google_traits
from tavernkit.silly_tavern.providers._chat.page_body import flatten_schema
from tavernkit.silly_tavern.providers._chat.requests import SOURCES

KEY = Connection(key="k3y")
WHERE: dict[str, Json] = {
    "custom_url": "http://models.example/v1",
    "azure_base_url": "https://orla.azure.example/ignored?a=b",
    "azure_deployment_name": "tide",
    "azure_api_version": "2024-10-21",
    "workers_ai_account_id": " a/b ",
}


def request(source: str, connection: Connection = KEY, /, **fields: Json) -> ProviderRequest:
    messages: list[Json] = [{"role": "user", "content": "hi"}]
    body: dict[str, Json] = {"chat_completion_source": source, "model": "m", "messages": messages, "max_tokens": 9}
    return chat_request(body | WHERE | fields, connection)


def refusal(source: str, connection: Connection = KEY, /, **fields: Json) -> RequestRefusedError:
    with pytest.raises(RequestRefusedError, match=f"^{source}: ") as caught:
        request(source, connection, **fields)
    return caught.value


def test_there_are_26_sources() -> None:
    assert len(CHAT_SOURCES) == 26


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_makes_a_request_of_the_least_possible_body(source: str) -> None:
    body: dict[str, Json] = {"chat_completion_source": source, "messages": []}
    assert chat_request(WHERE | body, KEY).url.startswith("http")


@pytest.mark.parametrize("source", [source for source in SOURCES if source not in ("custom", "vertexai")])
def test_a_missing_key_is_refused(source: str) -> None:
    refused = refusal(source, Connection())
    assert (refused.status, refused.answer, refused.code) == (400, {"error": True}, "MISSING_KEY")


def test_a_custom_endpoint_needs_no_key() -> None:
    assert request("custom", Connection()).headers["authorization"] == "Bearer"


@pytest.mark.parametrize("source", ["openai", "deepseek", "xai", "moonshot", "zai"])
def test_a_proxy_may_be_open(source: str) -> None:
    sent = request(source, reverse_proxy="https://proxy.example")
    assert sent.url == "https://proxy.example//chat/completions"
    assert sent.headers["authorization"] == "Bearer"


@pytest.mark.parametrize("source", ["claude", "mistralai"])
def test_a_proxy_without_password_is_refused_where_sillytavern_refuses_it(source: str) -> None:
    assert refusal(source, reverse_proxy="https://proxy.example").code == "MISSING_KEY"


def test_sources_without_proxies_ignore_one() -> None:
    sent = request("groq", reverse_proxy="https://proxy.example", proxy_password="pw")
    assert sent.url == "https://api.groq.com/openai/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer k3y"


def test_azure_takes_only_the_origin_of_its_address() -> None:
    sent = request("azure_openai")
    expected = "https://orla.azure.example/openai/deployments/tide/chat/completions?api-version=2024-10-21"
    assert sent.url == expected
    assert sent.headers["api-key"] == "k3y"
    assert "authorization" not in sent.headers


@pytest.mark.parametrize("field", ["azure_base_url", "azure_deployment_name", "azure_api_version"])
def test_azure_names_what_its_address_lacks(field: str) -> None:
    assert str(refusal("azure_openai", **{field: " "})) == f"azure_openai: {field} must not be empty"


@pytest.mark.parametrize("address", ["orla.azure.example", "https://", "https://[orla"])
def test_azure_needs_a_whole_address(address: str) -> None:
    refused = refusal("azure_openai", azure_base_url=address)
    assert "azure_base_url must be a whole address" in str(refused)
    assert refused.status == 400


def test_a_password_in_azures_address_is_not_part_of_its_origin() -> None:
    sent = request("azure_openai", azure_base_url="https://me:pw@orla.azure.example:8443/x")
    assert sent.url.startswith("https://orla.azure.example:8443/openai/")


@pytest.mark.parametrize(("value", "asked"), [(True, True), ("5", True), ("no", False), (-1, False), (None, False)])
def test_token_probabilities_are_compared_as_javascript_does(value: Json, asked: bool) -> None:
    body = request("xai", logprobs=value).body
    assert body.get("top_logprobs") == (value if asked else None)


@pytest.mark.parametrize(
    ("top_p", "kept"), [("0.5", "top_p"), ("1", "temperature"), (None, "top_p"), ("x", "temperature")]
)
def test_claude_compares_top_p_as_javascript_does(top_p: Json, kept: str) -> None:
    body = request("claude", model="claude-opus-4-1", reasoning_effort="auto", temperature=0.7, top_p=top_p).body
    assert body.keys() & {"temperature", "top_p"} == {kept}


@pytest.mark.parametrize("source", ["aimlapi", "electronhub", "chutes", "azure_openai"])
def test_a_text_in_place_of_messages_stays_where_nothing_is_converted(source: str) -> None:
    assert request(source, messages="Once upon a time").body["messages"] == "Once upon a time"


def test_a_schema_of_another_type_asks_for_json_all_the_same() -> None:
    assert request("openai", json_schema=True).body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"strict": True},
    }
    assert "response_format" not in request("openai", json_schema="").body


@pytest.mark.parametrize("source", ["makersuite", "workers_ai", "cohere", "groq", "custom"])
def test_a_schema_without_a_value_sends_no_null(source: str) -> None:
    assert None not in _leaves(request(source, json_schema={"name": "mood"}).body)


def _leaves(value: Json) -> list[Json]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if children is None else [leaf for child in children for leaf in _leaves(child)]


def test_workers_ai_encodes_the_account() -> None:
    assert request("workers_ai").url == "https://api.cloudflare.com/client/v4/accounts/a%2Fb/ai/v1/chat/completions"


def test_vertex_reaches_a_service_account_by_its_token() -> None:
    connection = Connection(access_token="t0ken", project="p1")
    sent = request("vertexai", connection, vertexai_auth_mode="full", vertexai_region="global", stream=True)
    path = "v1/projects/p1/locations/global/publishers/google/models/m:streamGenerateContent?alt=sse"
    assert sent.url == f"https://aiplatform.googleapis.com/{path}"
    assert sent.headers["authorization"] == "Bearer t0ken"
    assert refusal("vertexai", KEY, vertexai_auth_mode="full").code == "MISSING_KEY"


def test_fireworks_knows_a_chat_again_but_not_its_name() -> None:
    first, again, other = (request("fireworks", chat_id=chat).headers["x-session-affinity"] for chat in "aab")
    assert first == again != other
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert request("fireworks", Connection(key="k3y", secret="s"), chat_id="a").headers["x-session-affinity"] != first
    assert "x-session-affinity" not in request("fireworks").headers


@pytest.mark.parametrize("source", SOURCES)
def test_keys_are_never_shown(source: str) -> None:
    connection = Connection(key="s3cret", access_token="t0ken", secret="salt")
    for fields in ({}, {"reverse_proxy": "https://p.example", "proxy_password": "s3cret"}):
        sent = request(source, connection, **fields)
        masked = sent.masked()
        assert "s3cret" not in repr(sent) + repr(masked) + masked.url + str(masked.headers)
    assert "s3cret" not in repr(connection)
    assert "t0ken" not in repr(connection)


def test_openai_may_get_a_random_user() -> None:
    config = SillyTavernConfig(openai_randomize_user_id=True)
    body: dict[str, Json] = {"chat_completion_source": "openai", "messages": [], "model": "gpt-4o"}
    users = [chat_request(body, KEY, config, random=Random(seed)).body["user"] for seed in (1, 1, 2)]
    assert users[0] == users[1] != users[2]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", str(users[0]))


@pytest.mark.parametrize("model", ["gpt-3.5-turbo-instruct", "code-search-ada-code-001", "text-similarity-davinci-001"])
def test_old_models_get_a_text(model: str) -> None:
    sent = request("openai", model=model, stop=["x"], tools=[{"type": "function"}])
    assert sent.url == "https://api.openai.com/v1/completions"
    assert sent.body == {"model": model, "max_tokens": 9, "prompt": "user: hi\nassistant:", "stop": ["x"]}
    assert request("openrouter", model=model).url == "https://openrouter.ai/api/v1/chat/completions"


def test_a_definition_takes_the_place_of_references_to_it() -> None:
    schema: Json = {
        "$schema": "s",
        "$defs": {"leaf": {"type": "string", "default": "x"}, "tree": {"items": {"$ref": "#/$defs/tree"}}},
        "properties": {
            "a": {"$ref": "#/$defs/leaf", "title": "lost"},
            "b": {"$ref": "#/$defs/tree"},
            "c": [{"$ref": "#/$defs/none"}, {"$ref": "http://other"}],
            "default": {"$schema": "stays"},
        },
    }
    flat: dict[str, Json] = {
        "a": {"type": "string", "default": "x"},
        "b": {"items": {}},
        "c": [{}, {"$ref": "http://other"}],
    }
    assert flatten_schema(schema, "openai") == {"properties": {**flat, "default": {"$schema": "stays"}}}
    assert flatten_schema(schema, "vertexai") == {"properties": {**flat, "a": {"type": "string"}}}
    assert flatten_schema("text", "openai") == "text"


def test_a_schema_that_doubles_at_every_step_is_stopped() -> None:
    definitions: dict[str, Json] = {
        f"d{step}": {"a": {"$ref": f"#/$defs/d{step + 1}"}, "b": {"$ref": f"#/$defs/d{step + 1}"}} for step in range(60)
    }
    with pytest.raises(LimitExceededError, match="a JSON schema has more than 100000 parts"):
        request("openai", json_schema={"name": "n", "value": {"$defs": definitions, "$ref": "#/$defs/d0"}})


@pytest.mark.parametrize("source", SOURCES)
def test_deep_values_break_no_request(source: str) -> None:
    deep: Json = "end"
    for _ in range(5000):
        deep = [deep]
    part: dict[str, Json] = {"type": "other", "value": deep}
    sent = request(source, messages=[{"role": "user", "content": [part]}], tools=[{"type": "other", "other": deep}])
    assert sent.method == "POST"
    with pytest.raises(LimitExceededError, match="200 levels"):
        request(source, json_schema={"name": "n", "value": {"a": deep}})


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("gemini-2.5-flash", True),
        ("gemini-2x5-pro", True),
        ("gemini-2.5-flash-image", False),
        ("gemini-2.5-flash-image-preview", False),
        ("gemini-3.1-flash-image", True),
        ("gemini-3-ultra", False),
        ("models/gemini-3-pro", False),
    ],
)
def test_google_models_that_think(model: str, thinks: bool) -> None:
    names = {trait.name for trait in google_traits(model)}
    assert ("THINKS" in names) is thinks


def test_tables_of_models_name_no_model_twice() -> None:
    for table in (CLAUDE_MODELS, GOOGLE_MODELS):
        patterns = [pattern for pattern, _ in table]
        assert len(patterns) == len(set(patterns))
        assert all(re.compile(pattern) for pattern in patterns)
    assert EFFORT_MODELS["gpt-5.3-chat-latest"] == "medium"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = """
messages model temperature max_tokens stop tools tool_choice json_schema reasoning_effort verbosity stream top_p top_k
logprobs seed assistant_prefill provider quantizations custom_include_body custom_exclude_body custom_include_headers
custom_prompt_post_processing chat_id nanogpt_provider request_images vertexai_region request_image_resolution
workers_ai_account_id azure_base_url reverse_proxy middleout group_names
"""


@given(st.sampled_from(CHAT_SOURCES), st.dictionaries(st.sampled_from(FIELDS.split()), JSON, max_size=8))
@settings(max_examples=300)
def test_no_body_breaks_a_request(source: str, fields: dict[str, Json]) -> None:
    body: Any = {"chat_completion_source": source, "include_reasoning": True, **WHERE, **fields}
    with contextlib.suppress(TavernKitError):
        assert chat_request(body, KEY).method == "POST"
