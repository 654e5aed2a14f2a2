"""JSON pointers: reading and changing documents."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tavernkit._text import json_pointer
from tavernkit._values import freeze
from tavernkit.errors import ConfigError

DOCUMENT = {"a": [1, {"b/c": "x", "": 0}], "m~n": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/a/0", 1),
        ("/a/1/b~1c", "x"),
        ("/a/1/", 0),
        ("/m~0n", None),
        ("/a/2", "none"),
        ("/a/-", "none"),
        ("/a/01", "none"),
        ("/a/-1", "none"),
        ("/a/99999999999999999999", "none"),
        ("/a/0/x", "none"),
        ("/z", "none"),
    ],
)
def test_resolving(pointer: str, value: object) -> None:
    assert json_pointer.resolve(DOCUMENT, pointer, "none") == value
    assert json_pointer.resolve(freeze(DOCUMENT), pointer, "none") == (freeze(DOCUMENT) if pointer == "" else value)


@pytest.mark.parametrize(("keys", "pointer"), [("a/b", "/a~1b"), ("", "/"), (["ab", 0], "/ab/0"), (None, "")])
def test_a_text_is_one_key(keys: list[object] | str | None, pointer: str) -> None:
    assert json_pointer.from_tokens(keys) == pointer


def test_setting_copies_only_the_way() -> None:
    document = {"a": [1, {"b": 2}], "other": {"kept": True}}
    changed = json_pointer.set_value(document, "/a/1/b", 3)
    assert changed == {"a": [1, {"b": 3}], "other": {"kept": True}}
    assert document["a"] == [1, {"b": 2}]
    assert isinstance(changed, dict)
    assert changed["other"] is document["other"]


def test_setting_adds_keys_and_items() -> None:
    assert json_pointer.set_value({}, "/new", 1) == {"new": 1}
    assert json_pointer.set_value({"a": (1,)}, "/a/-", 2) == {"a": [1, 2]}
    assert json_pointer.set_value([1, 2], "/0", 9) == [9, 2]
    assert json_pointer.set_value(MappingProxyType({"a": 1}), "", [7]) == [7]


@pytest.mark.parametrize("pointer", ["/x/y", "/a/5", "/a/0/b", "/a/-/b", "/a/x"])
def test_setting_below_nothing_is_refused(pointer: str) -> None:
    with pytest.raises(ConfigError) as caught:
        json_pointer.set_value({"a": [1]}, pointer, 1)
    assert caught.value.code == "POINTER_NOT_FOUND"


def test_deleting() -> None:
    document = {"a": [1, 2, 3], "b": {"c": 1}}
    assert json_pointer.delete(document, "/a/1") == {"a": [1, 3], "b": {"c": 1}}
    assert json_pointer.delete(document, "/b/c") == {"a": [1, 2, 3], "b": {}}
    assert document == {"a": [1, 2, 3], "b": {"c": 1}}


@pytest.mark.parametrize(
    ("pointer", "code"), [("", "POINTER_IS_ROOT"), ("/x", "POINTER_NOT_FOUND"), ("/a/-", "POINTER_NOT_FOUND")]
)
def test_deleting_what_is_not_there_is_refused(pointer: str, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        json_pointer.delete({"a": [1]}, pointer)
    assert caught.value.code == code
