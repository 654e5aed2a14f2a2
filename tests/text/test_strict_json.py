"""JSON as the standard has it."""

from __future__ import annotations

import json

import pytest

from tavernkit._text import strict_json


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": Infinity}', "[-Infinity]", "{'a': 1}", "[1,]", "// x\n1", "01", '"\n"', "", "1 2"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        strict_json.loads(text)


def test_nesting_is_bounded() -> None:
    assert strict_json.loads("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="nested"):
        strict_json.loads("[" * 101 + "]" * 101)
    with pytest.raises(ValueError, match="nested"):
        strict_json.loads('{"a":' * 100_000)
    assert strict_json.loads(json.dumps(["[" * 500])) == ["[" * 500]


def test_compact_refuses_what_json_cannot_hold() -> None:
    for value in (float("nan"), {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            strict_json.compact(value)
    assert strict_json.compact({"é": [1, None, True]}) == '{"é":[1,null,true]}'


def test_compact_escapes_half_characters() -> None:
    assert strict_json.compact(["é😀"]) == '["é😀"]'
    assert strict_json.compact(["\ud800"]) == '["\\ud800"]'
    strict_json.compact({"\udfff": "é"}).encode()


def test_bytes_are_counted_in_utf8() -> None:
    assert strict_json.byte_length("aé日😀") == 1 + 2 + 3 + 4
    assert strict_json.byte_length("\ud800") == 3


def test_what_is_no_text_is_written_as_json() -> None:
    cyclic: list[object] = []
    cyclic.append(cyclic)
    values = ["a", None, True, 5, 1.5, ["z", None], {"k": False}]
    texts = ["a", "", "true", "5", "1.5", '["z", null]', '{"k": false}']
    assert [strict_json.plain_text(value) for value in values] == texts
    assert strict_json.plain_text(cyclic) == "[[...]]"
