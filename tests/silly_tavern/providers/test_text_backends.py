"""Text-completion backends: what recordings leave open."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._values import Json
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers import (
    TEXT_BACKENDS,
    Connection,
    RequestRefusedError,
    SillyTavernConfig,
    TextInput,
    text_page_body,
    text_request,
)
from tavernkit.silly_tavern.providers._text.given import with_defaults


def codes(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def body(backend: str, tokenizer: bool = True, /, **chosen: Json) -> dict[str, Any]:
    warnings: list[str] = []
    made: dict[str, Any] = text_page_body(
        backend,
        chosen,
        TextInput(
            prompt="p",
            max_tokens=20,
            max_context=100,
            stop_strings=["\nA:", "END"],
            server="http://localhost:5000",
            tokenize=codes if tokenizer else None,
            warn=warnings.append,
        ),
    )
    return made | {"warnings": warnings}


def test_unknown_backends_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown text backend 'horde'; pass one of ooba, "):
        text_page_body("horde", {}, TextInput(prompt="", max_tokens=1, max_context=1))
    with pytest.raises(ConfigError, match="unknown text backend 'horde'"):
        text_request("horde", {})


def test_banned_words_become_tokens_of_the_tokenizer() -> None:
    made = body("ooba", banned_tokens='ab\n[7]\n"ab"\nab\n\n', global_banned_tokens="b")
    assert made["custom_token_bans"] == "97,98,7"
    assert made["banned_strings"] == ["ab"]


def test_macros_ban_words_too() -> None:
    given = TextInput(prompt="p", max_tokens=1, max_context=1, banned_words=["b", "ab", "b"], tokenize=codes)
    assert text_page_body("ooba", {"banned_tokens": "[7]"}, given)["custom_token_bans"] == "7,98,97"


def test_bans_can_be_switched_off() -> None:
    assert body("mancer", banned_tokens="[7]", send_banned_tokens=False)["custom_token_bans"] == []


def test_words_without_a_tokenizer_are_left_out_with_a_warning() -> None:
    made = body("ooba", False, banned_tokens="ab", logit_bias=[{"text": "c", "value": 1}])
    assert made["custom_token_bans"] == ""
    assert made["logit_bias"] == {}
    assert made["warnings"] == [
        "banned_tokens 'ab' is left out: a tokenizer is needed to send it",
        "logit_bias ' c' is left out: a tokenizer is needed to send it",
    ]


@pytest.mark.parametrize("broken", ["[oops]", "[1.5]", '["a"]', "[true]"])
def test_lists_that_are_not_token_ids_are_left_out_with_a_warning(broken: str) -> None:
    made = body("ooba", banned_tokens=broken)
    assert made["custom_token_bans"] == ""
    assert made["warnings"] == [f"banned_tokens {broken!r} is left out: it is not a list of token ids"]


def test_biased_words_are_tokenized_with_a_blank_unless_in_braces() -> None:
    made = body("ooba", logit_bias=[{"text": " a ", "value": 2}, {"text": "{b}", "value": 3}, {"text": "[9]"}])
    assert made["logit_bias"] == {"32": 2, "97": 2, "98": 3, "9": None}


def test_llamacpp_lists_biases_by_token_id() -> None:
    made = body("llamacpp", logit_bias=[{"text": "[9]", "value": 1}, {"text": "[3]", "value": 2}], banned_tokens="[4]")
    assert made["logit_bias"] == [[3, 2], [9, 1], [4, False]]


def test_an_empty_list_of_sequence_breakers_is_not_sent_to_llamacpp() -> None:
    assert "dry_sequence_breakers" not in body("llamacpp", dry_sequence_breakers="[]")
    assert body("koboldcpp", dry_sequence_breakers="[]")["dry_sequence_breakers"] == []


def test_aphrodite_gets_an_order_of_samplers_only_if_it_was_changed() -> None:
    assert "sampler_priority" not in body("aphrodite")
    assert body("aphrodite", samplers_priorities=["xtc"])["sampler_priority"] == ["xtc"]


def test_a_schema_wins_over_a_grammar() -> None:
    schema: Json = {"type": "object"}
    made = body("llamacpp", grammar_string="g", json_schema=schema)
    assert made["json_schema"] == schema
    assert not {"grammar", "grammar_string"} & made.keys()
    assert "guided_grammar" not in body("aphrodite", grammar_string="g", json_schema=schema)
    assert body("aphrodite", grammar_string="g")["guided_grammar"] == "g"


def test_novelai_bans_every_spelling_of_a_word() -> None:
    made = body("novelai", model_novel="kayra-v1", banned_tokens="aB\n{c}\n[1]")
    spellings = ["aB", " aB", "AB", " AB", "ab", " ab", "c"]
    assert made["bad_words_ids"] == [*map(codes, spellings), [1]]


def test_novelai_erato_stops_behind_punctuation_too() -> None:
    stops = body("novelai", model_novel="llama-3-erato-v1")["stop_sequences"]
    assert stops[:4] == [codes("\nA:"), codes("END"), codes(".\nA:"), codes("!\nA:")]
    assert len(stops) == 14


def test_novelai_replies_are_longer_on_the_highest_subscription() -> None:
    def longest(model: str, *, unlimited: bool) -> Json:
        given = TextInput(prompt="", max_tokens=999, max_context=1, unlimited=unlimited)
        return text_page_body("novelai", {"model_novel": model}, given)["max_length"]

    assert longest("kayra-v1", unlimited=True) == 250
    assert longest("clio-v1", unlimited=True) == 150
    assert longest("kayra-v1", unlimited=False) == 150


def test_novelai_without_a_key_is_refused() -> None:
    with pytest.raises(RequestRefusedError, match="novelai: an API key is needed") as caught:
        text_request("novelai", {"model": "clio-v1"})
    assert (caught.value.status, caught.value.answer) == (400, {"error": True})


def test_an_empty_ban_behind_an_empty_ban_survives() -> None:
    sent: Any = text_request("novelai", {"model": "x", "bad_words_ids": [[], [], [1], ["a"]]}, Connection(key="k")).body
    assert sent["parameters"]["bad_words_ids"] == [[], [1]]


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
def test_keys_are_never_shown(backend: str) -> None:
    page = text_page_body(backend, {}, TextInput(prompt="p", max_tokens=1, max_context=9, server="http://h:1"))
    request = text_request(backend, page, Connection(key="s3cret"))
    assert "s3cret" not in repr(request)
    assert "s3cret" not in repr(request.masked()) + str(request.masked().headers)
    assert "s3cret" not in repr(Connection(key="s3cret"))


def test_without_a_key_no_key_headers_are_sent() -> None:
    request = text_request("tabby", {"api_server": "http://h:1/v1/"})
    assert request.url == "http://h:1/v1/completions"
    assert request.headers == {"content-type": "application/json"}


def test_only_the_first_override_of_a_host_counts() -> None:
    config = SillyTavernConfig.from_yaml(
        {
            "requestOverrides": [
                {"hosts": ["other:1"], "headers": {"A": "0"}},
                {"hosts": ["h:1"], "headers": {"Authorization": "mine"}},
                {"hosts": ["h:1"], "headers": {"B": "2"}},
            ]
        }
    )
    request = text_request("ooba", {"api_server": "http://h:1"}, Connection(key="k"), config)
    assert request.headers == {"content-type": "application/json", "authorization": "mine"}


def test_server_settings_may_be_nested_and_wrong_types_keep_the_shipped_value() -> None:
    config = SillyTavernConfig.from_yaml({"ollama": {"keepAlive": 5, "batchSize": "many"}, "gemini": 3})
    assert config == SillyTavernConfig(ollama_keep_alive=5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SETTING_NAMES = sorted({name for kind in ("text", "kobold", "novelai") for name in with_defaults(kind, {})})


@given(st.sampled_from(TEXT_BACKENDS), st.dictionaries(st.sampled_from(SETTING_NAMES), JSON, max_size=8))
@settings(max_examples=200)
def test_no_settings_break_a_request(backend: str, chosen: dict[str, Json]) -> None:
    made = body(backend, **chosen)
    assert text_request(backend, made, Connection(key="k")).method == "POST"


@given(st.sampled_from(TEXT_BACKENDS), st.dictionaries(st.text(max_size=9), JSON, max_size=8))
@settings(max_examples=100)
def test_no_body_breaks_a_request(backend: str, page: dict[str, Json]) -> None:
    assert text_request(backend, page, Connection(key="k")).method == "POST"
