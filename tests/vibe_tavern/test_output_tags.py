"""Output tags: what the vectors do not show, and streams."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tavernkit._values import FrozenObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._output_tags import (
    OutputTagsConfig,
    SanitizerRegistry,
    TagWarning,
    default_sanitizers,
    transform,
)
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream

LANG_SPANS = {"lang_spans": {"enabled": True}}


def config(**fields: Any) -> OutputTagsConfig:
    return OutputTagsConfig.from_mapping({"enabled": True, **fields})


def rule(action: str, tag: str = "x", **fields: Any) -> list[dict[str, Any]]:
    return [{"tag": tag, "action": action, **fields}]


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (rule("strip"), "ab"),
        (rule("drop"), "a"),
        (rule("rename", to="y"), 'a<y k="v">b</y>'),
    ],
)
def test_self_closing_tag_is_an_opening_one(rules: list[dict[str, Any]], text: str) -> None:
    assert transform('a<x k="v"/>b', config(rules=rules)).text == text


def test_unclosed_rename_is_closed_and_attributes_are_renamed_without_case() -> None:
    rules = rule("rename", to="y", attrs={"CODE": "data-code"})
    assert transform("<X Code=1 b='2'>t", config(rules=rules)).text == "<y data-code=1 b='2'>t</y>"


def test_unknown_and_failing_sanitizers_are_reported_and_passed_over() -> None:
    def failing(_: str, __: FrozenObject) -> tuple[str, list[TagWarning]]:
        raise RuntimeError("kaput")

    registry = default_sanitizers.copy()
    registry.register("failing", failing)
    settings = config(sanitizers={"nope": {"enabled": True}, "failing": {"enabled": True}, **LANG_SPANS})
    result = transform('<lang code="ja_jp">x', settings, sanitizers=registry)
    assert result.text == '<lang code="ja-JP">x</lang>'
    assert [warning.code for warning in result.warnings] == ["SANITIZER_UNKNOWN", "SANITIZER_FAILED"]
    assert default_sanitizers.get("failing") is None


def test_a_sanitizer_of_ones_own_sees_masked_text() -> None:
    seen: list[str] = []

    def spy(text: str, _: FrozenObject) -> tuple[str, list[TagWarning]]:
        seen.append(text)
        return text.replace("a", "b"), [TagWarning("NOTED")]

    registry = SanitizerRegistry()
    registry.register("Spy", spy)
    result = transform("a `a`", config(sanitizers={"spy": {"enabled": True}}), sanitizers=registry)
    assert result.text == "b `a`"
    assert "`a`" not in seen[0]
    assert [str(warning) for warning in result.warnings] == ["output tags: NOTED"]


def test_warnings_go_where_they_are_wanted(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    transform("</lang>", config(sanitizers=LANG_SPANS, warner=told.append))
    assert told == ["output tags: LANG_SPAN_STRAY_CLOSE"]
    with caplog.at_level(logging.WARNING, "tavernkit"):
        transform("</lang>", config(sanitizers=LANG_SPANS))
        assert not caplog.records
        transform("</lang>", config(sanitizers=LANG_SPANS, warn=True))
    assert len(caplog.records) == 1


def test_kept_spans_are_closed_even_when_the_rest_of_the_text_is_dropped() -> None:
    spans = {"lang_spans": {"enabled": True, "on_invalid_code": "drop"}}
    text = '<lang code="ja">a<lang code="??">b'
    assert transform(text, config(sanitizers=spans)).text == '<lang code="ja">a</lang>'


def test_a_blank_code_counts_as_none() -> None:
    config = OutputTagsConfig.from_mapping({"enabled": True, "sanitizers": {"lang_spans": {"enabled": True}}})
    result = transform('a<lang code=" ">b</lang>', config)
    assert result.text == "ab"
    assert [warning.to_dict() for warning in result.warnings] == [{"code": "LANG_SPAN_CODE_MISSING"}]


def test_bad_option_of_lang_spans_is_reported() -> None:
    spans = {"lang_spans": {"enabled": True, "on_invalid_code": "explode"}}
    result = transform('<lang code="??">x</lang>', config(sanitizers=spans))
    assert result.text == '<lang code="??">x</lang>'
    assert result.warnings == (TagWarning("LANG_SPAN_BAD_OPTION", "explode"),)
    assert transform("no tag at all", config(sanitizers=spans)).warnings == result.warnings


def test_self_closing_lang_span_is_an_opening_one() -> None:
    result = transform('<lang code="ja_jp"/>x', config(sanitizers=LANG_SPANS))
    assert (result.text, result.warnings) == ('<lang code="ja-JP">x</lang>', ())


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ([], "OUTPUT_TAGS_NOT_A_MAPPING"),
        ({"rules": ["x"]}, "OUTPUT_TAGS_RULE_NOT_A_MAPPING"),
        ({"rules": [{"tag": "a", "action": "rename", "to": "b", "attrs": []}]}, "OUTPUT_TAGS_RULE_ATTRS"),
        ({"sanitizers": []}, "OUTPUT_TAGS_SANITIZERS_NOT_A_MAPPING"),
        ({"sanitizers": {"lang_spans": True}}, "OUTPUT_TAGS_SANITIZER_OPTIONS"),
        ({"warner": 5}, "OUTPUT_TAGS_WARNER"),
    ],
)
def test_sections_of_the_wrong_shape_are_refused(section: Any, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OutputTagsConfig.from_mapping(section)
    assert caught.value.code == code


STREAMED = config(
    rules=[*rule("drop", "think"), *rule("strip", "b"), *rule("rename", "i", to="em")], sanitizers=LANG_SPANS
)


def test_stream_holds_back_only_what_may_change() -> None:
    stream = OutputTagsStream(STREAMED)
    assert stream.feed("Hello ") == "Hello "
    assert stream.feed("wor<thi") == "wor"
    assert stream.feed("nk>secret</thi") == ""
    assert stream.feed("nk>ld ") == "ld "
    assert stream.feed("`<think>` is code. ") == "`<think>` is code. "
    assert stream.feed("open <think>never closed") == "open "
    assert stream.finish() == ""


def test_with_an_own_sanitizer_the_stream_comes_at_its_end() -> None:
    registry = default_sanitizers.copy()
    registry.register("hide", lambda text, options: (text.replace("the secret", "…"), ()))
    own = config(sanitizers={"hide": {"enabled": True}})
    stream = OutputTagsStream(own, sanitizers=registry)
    assert [stream.feed("Here is the "), stream.feed("secret."), stream.finish()] == ["", "", "Here is …."]
    assert OutputTagsStream(config(sanitizers={"unknown": {"enabled": True}})).feed("Hello.") == "Hello."


def test_a_stream_leaves_warnings_to_the_whole_text() -> None:
    warnings: list[str] = []
    stream = OutputTagsStream(config(sanitizers=LANG_SPANS, warner=warnings.append))
    assert stream.feed("a</lang>b ") + stream.finish() == "ab "
    assert warnings == []


def test_stream_passes_deltas_when_there_is_nothing_to_do() -> None:
    stream = OutputTagsStream(OutputTagsConfig())
    assert stream.feed("<think>") == "<think>"
    assert stream.finish() == ""


@pytest.mark.parametrize(
    "pieces",
    [
        ["{{", "<think>", "`", "}}", "`"],
        ["{%", "{{", "%}", "<b>", "}}"],
        ["``", "`", "<b>", "```"],
        ["{", "%}", "<think>", "%}"],
        ["`", "{{", "`", "<b>", "x", "</b>"],
        ["<", "<b>", "i x", "<think>", "</think>>", "y", "</i>"],
        ["<</b>think>", "x", "</think>"],
        ["<i </think></i>", "x"],
    ],
)
def test_zones_inside_zones_are_held_until_they_are_sure(pieces: list[str]) -> None:
    stream = OutputTagsStream(STREAMED)
    streamed = "".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert streamed == transform("".join(pieces), STREAMED).text
