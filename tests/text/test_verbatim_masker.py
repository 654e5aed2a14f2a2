"""Verbatim masking beyond the vectors."""

from __future__ import annotations

import time

import pytest

from tavernkit._text.verbatim_masker import EscapeHatch, mask, unmask
from tavernkit.errors import ConfigError


def test_a_placeholder_cannot_be_forged() -> None:
    for forged in ("\0VTCODE2\0 ```x```", "\0VTNUL0\0", "\0", "a\0\0VTINLINE1\0`b`"):
        masked, placeholders = mask(forged, EscapeHatch(enabled=False))
        assert unmask(masked, placeholders) == forged


def test_an_unknown_placeholder_is_left_alone() -> None:
    assert unmask("\0VTCODE9\0", {"\0VTCODE0\0": "x"}) == "\0VTCODE9\0"


def test_deleted_placeholders_stay_deleted() -> None:
    masked, placeholders = mask("a `b` c `d`")
    assert unmask(masked.replace("\0VTINLINE0\0", ""), placeholders) == "a  c `d`"


@pytest.mark.parametrize("value", [None, True, "html_entity", ["literal"]])
def test_the_hatch_must_be_an_object(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        EscapeHatch.from_mapping(value)
    assert caught.value.code == "ESCAPE_HATCH_NOT_AN_OBJECT"


@pytest.mark.parametrize("mode", [None, "strip", ["literal"], {}, 1])
def test_the_hatch_must_have_a_known_mode(mode: object) -> None:
    with pytest.raises(ConfigError) as caught:
        EscapeHatch.from_mapping({"enabled": True, "mode": mode})
    assert caught.value.code == "ESCAPE_HATCH_MODE"


def test_the_hatch_is_off_unless_it_is_said_to_be_on() -> None:
    assert EscapeHatch.from_mapping({}) == EscapeHatch(enabled=False)
    assert EscapeHatch.from_mapping({"enabled": True, "mode": "literal"}) == EscapeHatch(mode="literal")
    masked, _ = mask("\\<b>", EscapeHatch.from_mapping({"mode": "literal"}))
    assert masked == "\\<b>"


@pytest.mark.parametrize("text", ["{{" * 100_000, "{%" * 100_000, "`" * 200_001, "\\<" * 100_000, "```" * 99_999])
def test_unclosed_zones_cost_no_more_than_their_length(text: str) -> None:
    started = time.process_time()
    masked, placeholders = mask(text, EscapeHatch(mode="keep_backslash"))
    assert unmask(masked, placeholders) == text
    assert time.process_time() - started < 5
