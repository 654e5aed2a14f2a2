"""Values are checked against types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import pytest

from tavernkit import ConfigError
from tavernkit._arguments import check_values, require, require_choice
from tavernkit._values import FrozenJson, FrozenObject

if TYPE_CHECKING:
    pass


class Named(Protocol):
    name: str

    def call(self) -> None: ...


class Called(Protocol):
    def __call__(self) -> None: ...


class Dog:
    name = "Rex"

    def call(self) -> None: ...


class Costly:
    @property
    def name(self) -> str:
        raise OSError("the file is gone")

    def call(self) -> None: ...


class Point(NamedTuple):
    x: int


@dataclass(frozen=True)
class Base:
    text: str = ""
    lengths: Sequence[int] = ()


@dataclass(frozen=True)
class Child(Base):
    options: FrozenObject | None = None
    anything: FrozenJson = None


@pytest.mark.parametrize(
    ("hint", "good", "bad", "told"),
    [
        (str, "x", 5, "must be text, not int 5"),
        (int, 5, True, "must be a whole number, not bool True"),
        (int, 5, 5.5, "must be a whole number, not float 5.5"),
        (float, 5, False, "must be a number, not bool False"),
        (bool, True, 1, "must be True or False, not int 1"),
        (bytes, b"x", "x", "must be bytes, not str"),
        (None, None, 0, "must be None, not int 0"),
        (int | None, None, "5", "must be a whole number or None, not str '5'"),
        (int | str | None, "5", 5.5, "must be a whole number, text or None, not float"),
        (Literal["a", "b"], "a", "c", "must be one of a, b, not 'c'"),
        (Literal["a", "b"], "a", 5, "must be one of 'a', 'b', not int 5"),
        (Literal[1, 2], 1, 3, "must be one of 1, 2, not int 3"),
        (Callable[[int], int], abs, 5, "must be a function, not int"),
        (Sequence[str], ["a"], b"a", "must be a list of texts, not bytes b'a'"),
        (Sequence[str], (), [5], r"must be a list of texts, not list \[5\]"),
        (tuple[int, ...], (1, 2), ("a",), r"must be a list of whole numbers, not tuple \('a',\)"),
        (tuple[int, str], (1, "a"), 5, "must be a list, not int"),
        (Sequence[int | str], [1, "a"], [None], r"must be a list of \(a whole number or text\), not list"),
        (Mapping[str, int], MappingProxyType({"a": 1}), {"a": "b"}, "must be a mapping of whole numbers, not dict"),
        (Mapping[str, object], {"a": object()}, [], "must be a mapping, not list"),
        (dict[str, Sequence[int]], {"a": [1]}, {"a": 1}, r"must be a mapping of \(a list of whole numbers\), not dict"),
        (Dog, Dog(), Dog, "must be a Dog, not type"),
        (Named, Dog(), 5, r"must be a Named \(an object with call, name\), not int"),
        (Named, Dog(), Dog, "must be a Named"),
        (Sequence[Named], [Dog()], [5], r"must be a list of \(a Named \(an object with call, name\)\), not list"),
        (Called, Dog().call, Dog(), r"must be a Called \(an object with __call__\), not Dog"),
        (Point, Point(1), (1,), "must be a Point, not tuple"),
    ],
)
def test_what_a_hint_says_is_required(hint: object, good: object, bad: object, told: str) -> None:
    require("it", good, hint)
    with pytest.raises(ConfigError, match=f"^it {told}"):
        require("it", bad, hint)


def test_telling_what_an_object_has_does_not_work_it_out() -> None:
    require("it", Costly(), Named)


@pytest.mark.parametrize("hint", [object, Any, FrozenJson, FrozenJson | None])
def test_some_hints_allow_anything(hint: object) -> None:
    require("it", Dog(), hint)


def test_what_to_pass_can_be_said_better() -> None:
    with pytest.raises(ConfigError, match=r"^user must be a name such as 'Ann', not int 5"):
        require("user", 5, str, "a name such as 'Ann'")


class Book:
    @classmethod
    def load(cls, source: str) -> Book:
        return cls()

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Book:
        return cls()


@pytest.mark.parametrize(
    ("hint", "value", "advice"),
    [
        (Book | None, "a.json", "not str 'a.json': make one with Book.load"),
        (Book, {}, "not dict {}: make one with Book.from_json"),
        (Book, 5, "not int 5"),
        (Sequence[Book], Book(), "not Book Book\\(\\): put it in a list"),
        (Sequence[Book], "a.json", "not str 'a.json': make one with Book.load"),
        (Sequence[str], "a", "not str 'a': put it in a list"),
        (Mapping[str, Book], Book(), "not Book Book\\(\\)"),
        (Dog, "a.json", "not str 'a.json'"),
        (str, {}, "not dict {}"),
    ],
)
def test_the_way_to_what_is_wanted_is_told(
    hint: object, value: object, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Book, "__repr__", lambda _: "Book()")
    with pytest.raises(ConfigError, match=f", {advice}$"):
        require("it", value, hint)


def test_choices_name_what_there_is() -> None:
    require_choice("mode", "a", ("a", "b"))
    with pytest.raises(ConfigError, match=r"^mode must be one of a, b, not 'c'") as raised:
        require_choice("mode", "c", ("a", "b"))
    assert raised.value.code == "UNKNOWN_MODE"
    with pytest.raises(ConfigError, match=r"^mode must be one of '', b, not 'c'") as raised:
        require("mode", "c", Literal["", "b"])
    assert raised.value.code == "UNKNOWN_MODE"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": 5}, "a name, not int 5"),
        ({"lengths": ["a"]}, "a list of whole numbers, not list"),
        ({"options": 5}, "a mapping or None, not int 5"),
    ],
)
def test_values_are_checked_against_the_fields_of_a_class(wrong: dict[str, Any], message: str) -> None:
    check_values({"text": "a", "lengths": [1], "options": {"a": Dog()}, "anything": Dog(), "other": 5}, Child)
    (name,) = wrong
    check_values(wrong, Child, skip=[name])
    with pytest.raises(ConfigError, match=f"^{name} must be {message}"):
        check_values(wrong, Child, wanted={"text": "a name"})
