"""JavaScript values: the cases that people trip over."""

from __future__ import annotations

import math

import pytest

from tavernkit._text import js_values as js
from tavernkit.errors import ConfigError


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1, "1"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53 + 1, "9007199254740992"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_numbers_are_written_in_their_shortest_form(number: float, text: str) -> None:
    assert js.number_to_string(number) == text


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (1.005, 2, "1.00"),
        (1.45, 1, "1.4"),
        (8.345, 2, "8.35"),
        (2.5, 0, "3"),
        (-2.5, 0, "-3"),
        (-0.0000001, 2, "-0.00"),
        (-0.0, 2, "0.00"),
        (1e21, 2, "1e+21"),
        (123.456, 10, "123.4560000000"),
        (0.000001, 7, "0.0000010"),
    ],
)
def test_fixed_form_rounds_the_exact_binary_value(number: float, digits: int, text: str) -> None:
    assert js.to_fixed(number, digits) == text


def test_digits_out_of_range_are_a_range_error() -> None:
    with pytest.raises(js.JSRangeError):
        js.to_fixed(1, 101)
    with pytest.raises(js.JSRangeError):
        js.to_radix_string(1, 1)


@pytest.mark.parametrize(
    ("number", "radix", "text"),
    [
        (255, 16, "ff"),
        (-255, 2, "-11111111"),
        (0.5, 2, "0.1"),
        (0.1, 3, "0.0022002200220022002200220022002201"),
        (1e21, 36, "5v1j4f4ds7c000"),
        (2**53, 7, "5350140446150306054"),
        (math.nan, 2, "NaN"),
        (0, 2, "0"),
    ],
)
def test_other_bases(number: float, radix: int, text: str) -> None:
    assert js.to_radix_string(number, radix) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("", 0),
        (" \t\n\ufeff\u00a0\u2028", 0),
        (" 12 ", 12),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("-Infinity", -math.inf),
        (".5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        (None, 0),
        (True, 1),
        ([], 0),
        ([7], 7),
        ([None], 0),
        ([[["3"]]], 3),
        (10**400, math.inf),
    ],
)
def test_number_of_a_value(value: object, number: float) -> None:
    assert js.to_number(value) == number


@pytest.mark.parametrize(
    "value", ["1_000", "0x", "-0x1", "1,5", "infinity", "1 2", "+", ".", "e5", "٣", "\u200b1", [1, 2], {}, js.UNDEFINED]
)
def test_values_that_are_no_number(value: object) -> None:
    assert math.isnan(js.to_number(value))


@pytest.mark.parametrize(
    ("text", "radix", "number"),
    [
        ("  42px", None, 42),
        ("-0x1A", None, -26),
        ("0x1A", 16, 26),
        ("0x1A", 10, 0),
        ("101", 2, 5),
        ("z", 36, 35),
        ("12", 3, 5),
        ("9" * 400, None, math.inf),
        ("1e3", None, 1),
    ],
)
def test_parse_int_reads_what_it_can(text: str, radix: int | None, number: float) -> None:
    assert js.parse_int(text, radix) == number


@pytest.mark.parametrize(("text", "radix"), [("", None), ("px", None), ("9", 8), ("1", 1), ("1", 37), ("0x", None)])
def test_parse_int_gives_nan_otherwise(text: str, radix: int | None) -> None:
    assert math.isnan(js.parse_int(text, radix))


def test_parse_int_keeps_the_sign_of_zero() -> None:
    assert math.copysign(1, js.parse_int("-0")) == -1


def test_parse_float_takes_the_longest_number() -> None:
    assert js.parse_float(" 3.14abc") == 3.14
    assert js.parse_float("1e") == 1
    assert js.parse_float("-.5.5") == -0.5
    assert js.parse_float("Infinityx") == math.inf
    assert math.isnan(js.parse_float("x1"))


def test_rounding_goes_up_at_halves() -> None:
    assert [js.js_round(x) for x in (2.5, -2.5, -0.2, 0.49999999999999994, 4503599627370495.5)] == [
        3,
        -2,
        0,
        0,
        4503599627370496,
    ]
    assert math.copysign(1, js.js_round(-0.2)) == -1
    assert math.isnan(js.js_round(math.nan))


def test_bitwise_wrapping() -> None:
    assert [js.to_int32(x) for x in (2**31, -(2**31) - 1, 1e20, math.nan, math.inf, -1.9)] == [
        -(2**31),
        2**31 - 1,
        1661992960,
        0,
        0,
        -1,
    ]
    assert js.to_uint32(-1) == 2**32 - 1
    assert [js.to_integer(x) for x in (-1.9, math.nan, math.inf)] == [-1, 0, math.inf]


def test_remainder_has_the_sign_of_the_left_side() -> None:
    assert [js.remainder(-5, 3), js.remainder(5, -3), js.remainder(5.5, 2), js.remainder(1, math.inf)] == [
        -2,
        2,
        1.5,
        1,
    ]
    assert all(math.isnan(js.remainder(*pair)) for pair in ((1, 0), (math.inf, 1), (1, math.nan), (math.nan, 1)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (js.UNDEFINED, "undefined"),
        (True, "true"),
        (1.0, "1"),
        ([], ""),
        ([1, [2, [3, None]], js.UNDEFINED, "x"], "1,2,3,,,x"),
        ({}, "[object Object]"),
        ([{}], "[object Object]"),
        ((1, 2), "1,2"),
    ],
)
def test_text_of_a_value(value: object, text: str) -> None:
    assert js.to_string(value) == text


def test_a_list_nested_without_end_has_a_text() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert js.to_string(endless) == ""


@pytest.mark.parametrize("value", [None, js.UNDEFINED, False, 0, -0.0, math.nan, ""])
def test_falsy_values(value: object) -> None:
    assert not js.truthy(value)


@pytest.mark.parametrize("value", [True, 1, -1, math.inf, "0", "false", " ", [], {}])
def test_truthy_values(value: object) -> None:
    assert js.truthy(value)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (None, js.UNDEFINED, True),
        (None, 0, False),
        ("1", 1, True),
        ("", 0, True),
        (" \n", 0, True),
        (True, "1", True),
        (True, "true", False),
        ([1], 1, True),
        ([1, 2], "1,2", True),
        ({}, "[object Object]", True),
        ([], False, True),
        ([], [], False),
        (math.nan, math.nan, False),
        (1, 1.0, True),
        ("a", "a", True),
    ],
)
def test_loose_equality(left: object, right: object, equal: bool) -> None:
    assert js.loose_equals(left, right) is equal
    assert js.loose_equals(right, left) is equal


def test_strict_equality_converts_nothing() -> None:
    same: list[object] = []
    assert js.strict_equals(same, same)
    assert not js.strict_equals([], [])
    assert not js.strict_equals(1, True)
    assert not js.strict_equals("1", 1)
    assert not js.strict_equals(None, js.UNDEFINED)
    assert js.strict_equals(1, 1.0)
    assert js.strict_equals(0.0, -0.0)


def test_texts_compare_by_code_units_and_numbers_by_value() -> None:
    assert js.less_than("10", "9")
    assert not js.less_than("10", 9)
    assert js.less_than("\U0001f600", "\uffff")  # its first unit is a surrogate
    assert not js.less_than("x", 1)
    assert not js.less_or_equal(js.UNDEFINED, js.UNDEFINED)
    assert js.less_or_equal(None, 0)
    assert js.less_or_equal("a", "a")


def test_addition_joins_as_soon_as_one_side_is_text() -> None:
    assert js.add(1, "2") == "12"
    assert js.add([1], 2) == "12"
    assert js.add(None, 2) == 2
    assert js.add(True, True) == 2
    assert js.add("\ud83d", "\ude00") == "😀"


def test_undefined_is_false_and_says_its_name() -> None:
    assert not js.UNDEFINED
    assert repr(js.UNDEFINED) == "UNDEFINED"


class TestStrings:
    def test_trim_knows_javascripts_white_space(self) -> None:
        assert js.trim(js.WHITESPACE + "x" + js.WHITESPACE) == "x"
        assert js.trim("\u200bx\x85\x1c") == "\u200bx\x85\x1c"  # white space to Python or to nobody
        assert js.trim_start("  x ") == "x "
        assert js.trim_end("  x ") == "  x"

    def test_offsets_count_utf16_units(self) -> None:
        text = "a😀b"
        assert js.utf16_length(text) == 4
        assert [js.utf16_index(text, i) for i in range(4)] == [0, 1, 3, 4]
        assert [js.python_index(text, i) for i in (-1, 0, 1, 2, 3, 4, 9)] == [0, 0, 1, 1, 2, 3, 3]
        assert js.utf16_slice(text, 1, 3) == "😀"
        assert js.utf16_slice(text, 2, 3) == "\ude00"
        assert js.utf16_slice(text, -1) == "b"
        assert js.utf16_slice(text, 3, 1) == ""
        assert js.utf16_at(text, 1) == "\ud83d"
        assert js.utf16_at(text, -1) == ""
        assert js.utf16_find(text, "b") == 3
        assert js.utf16_find(text, "\ude00") == 2
        assert js.utf16_find(text, "") == 0
        assert js.utf16_find("abc", "", 9) == 3
        assert js.utf16_find(text, "x") == -1

    def test_a_lone_surrogate_before_a_whole_character_is_counted(self) -> None:
        assert js.python_index("\ud83d😀", 1) == 1
        assert js.python_index("\ud83d😀x", 3) == 2
        assert js.python_index("\ud83d😀x", 2) == 1

    def test_halves_that_meet_become_one_character(self) -> None:
        assert js.join_surrogates("\ud83d\ude00\ud83d") == "😀\ud83d"
        assert js.join_surrogates("plain é") == "plain é"

    def test_case_follows_unicode(self) -> None:
        assert js.js_upper("straße ŉ ﬁ") == "STRASSE ʼN FI"
        assert js.js_lower("ΑΣ ΑΣΑ İ") == "ας ασα i̇"

    def test_percent_encoding(self) -> None:
        assert js.encode_uri_component("a b/ü😀'") == "a%20b%2F%C3%BC%F0%9F%98%80'"

    def test_a_lone_surrogate_cannot_be_percent_encoded(self) -> None:
        with pytest.raises(js.JSURIError):
            js.encode_uri_component("\ud83d")


class TestJson:
    def test_keys_that_are_indexes_come_first(self) -> None:
        value = {"b": 1, "10": 2, "2": 3, "01": 4, "-1": 5, "4294967295": 6, "4294967294": 7}
        assert js.json_stringify(value) == '{"2":3,"10":2,"4294967294":7,"b":1,"01":4,"-1":5,"4294967295":6}'
        assert js.own_keys(["b", "1", "a", "0"]) == ["0", "1", "b", "a"]
        assert js.is_index_key("0")
        assert not js.is_index_key("")
        assert not js.is_index_key("²")

    def test_numbers_and_escapes_are_javascripts(self) -> None:
        assert js.json_stringify([1.0, 1e21, -0.0, math.nan, math.inf, 2**60]) == (
            "[1,1e+21,0,null,null,1152921504606847000]"
        )
        assert js.json_stringify('"\\\b\f\n\r\t\x01\x7f\u2028é😀\ud83d') == (
            '"\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\u2028é😀\\ud83d"'
        )

    def test_indentation(self) -> None:
        assert js.json_stringify({"a": [1, {}], "b": []}, 2) == ('{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}')
        assert js.json_stringify([1], "\t") == "[\n\t1\n]"
        assert js.json_stringify([1], 99) == f"[\n{' ' * 10}1\n]"
        assert js.json_stringify([1], -1) == "[1]"

    def test_undefined_is_left_out(self) -> None:
        assert js.json_stringify({"a": js.UNDEFINED, "b": [js.UNDEFINED]}) == '{"b":[null]}'
        assert js.json_stringify(js.UNDEFINED) == "undefined"

    def test_what_is_no_json_is_a_mistake_of_the_caller(self) -> None:
        endless: list[object] = []
        endless.append(endless)
        with pytest.raises(ConfigError, match="levels"):
            js.json_stringify(endless)
        with pytest.raises(ConfigError, match="object"):
            js.json_stringify(object())

    def test_parsing_gives_javascripts_values(self) -> None:
        parsed = js.json_parse('{"b":1,"1":9007199254740993,"a":-0,"b":2,"big":1e999}')
        assert isinstance(parsed, dict)
        assert list(parsed) == ["1", "b", "a", "big"]
        assert parsed["1"] == 9007199254740992.0
        assert math.copysign(1, float(str(parsed["a"]))) == -1
        assert parsed["big"] == math.inf
        assert js.json_parse(" [1] ") == [1]
        assert js.json_parse('"\\ud83d\\ude00\\ud83d"') == "😀\ud83d"
        assert js.json_parse("1" * 5000) == math.inf

    @pytest.mark.parametrize(
        "text", ["", "NaN", "[1,]", "{'a':1}", "01", "1.", ".5", "+1", '"\n"', "\ufeff1", "\u00a01", "[" * 100_000, "-"]
    )
    def test_parsing_is_as_strict(self, text: str) -> None:
        with pytest.raises(js.JSSyntaxError):
            js.json_parse(text)
