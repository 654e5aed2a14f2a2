"""JavaScript values as V8 has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pytest

from tavernkit._text import js_values as js
from tavernkit._text.js_values.dates import parse_other_date
from tests.text.recorded import bits, from_bits, read

ROWS = read("values.jsonl")


def number(given: dict[str, Any]) -> dict[str, object]:
    value = from_bits(given["bits"])
    return {
        "to_string": js.number_to_string(value),
        "to_fixed": js.to_fixed(value, given["digits"]),
        "to_radix_string": js.to_radix_string(value, given["radix"]),
        "round": bits(js.js_round(value)),
        "to_int32": js.to_int32(value),
        "to_uint32": js.to_uint32(value),
    }


def parse(given: dict[str, Any]) -> dict[str, object]:
    text = given["text"]
    return {
        "to_number": bits(js.to_number(text)),
        "parse_float": bits(js.parse_float(text)),
        "parse_int": bits(js.parse_int(text, given["radix"])),
        "trim": js.trim(text),
        "trim_start": js.trim_start(text),
        "trim_end": js.trim_end(text),
    }


def or_uri_error(convert: Callable[[str], str], text: str) -> str:
    try:
        return convert(text)
    except js.JSURIError:
        return "URIError"


def string(given: dict[str, Any]) -> dict[str, object]:
    text, other, start, end = given["text"], given["other"], given["start"], given["end"]
    return {
        "length": js.utf16_length(text),
        "slice": js.utf16_slice(text, start, end),
        "char_at": js.utf16_at(text, start),
        "less": js.compare_strings(text, other) < 0,
        "index_of": js.utf16_find(text, other, start),
        "index_of_first_unit": js.utf16_find(text, js.utf16_at(other, 0)),
        "lower": js.js_lower(text),
        "upper": js.js_upper(text),
        "encode_uri_component": or_uri_error(js.encode_uri_component, text),
        "json": js.json_stringify(text),
    }


def value(given: dict[str, Any]) -> dict[str, object]:
    left, right = given["left"], given["right"]
    return {
        "to_string": js.to_string(left),
        "to_number": bits(js.to_number(left)),
        "truthy": js.truthy(left),
        "loose_equals": js.loose_equals(left, right),
        "strict_equals": js.strict_equals(left, right),
        "less": js.less_than(left, right),
        "less_or_equal": js.less_or_equal(left, right),
        "type_of": js.type_of(left),
        "json": js.json_stringify(left, given["indent"]),
        "added": js.to_string(js.add(left, right)),
        "added_json": js.json_stringify([js.add(left, right)]),
    }


def test_every_recorded_date_is_the_same() -> None:
    zone = timezone(timedelta(hours=2))
    rows = read("dates.jsonl")
    assert len(rows) > 250
    for row in rows:
        date = parse_other_date(row["input"], zone)
        assert (date and round(date.timestamp() * 1000)) == row["expected"], row["input"]


KINDS = {"number": number, "parse": parse, "string": string, "value": value}


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_result_is_the_same(kind: str) -> None:
    rows = [row for row in ROWS if row["kind"] == kind]
    assert len(rows) == 150
    for row in rows:
        assert KINDS[kind](row["input"]) == row["expected"], row["input"]
