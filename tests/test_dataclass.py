"""The package's own ``dataclass`` gives what the standard library's gives, later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tavernkit
from tavernkit import _dataclass
from tavernkit._dataclass import INSTANCES_WITHOUT_FUNCTION, copy_with, dataclass, replaced
from tavernkit.vibe_tavern import VibeTavernContext
from tests.vibe_tavern.support import loose


@dataclass(frozen=True, slots=True)
class Point:
    """A frozen value."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list[str], compare=False, repr=False)
    double: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", self.x * 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    """A frozen value that adds a field."""

    name: str


@dataclass(slots=True)
class Counter:
    """A value that changes."""

    count: int = 0
    inside: object = None


def test_fields_defaults_and_post_init() -> None:
    made = Point(3)
    assert (made.x, made.y, made.tags, made.double) == (3, 2, [], 6)
    assert Point(3).tags is not made.tags
    assert Named(x=1, name="n") == Named(1, name="n")
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]  # the error is what is tested
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]  # the error is what is tested


def test_what_is_shown_compared_and_hashed() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, double=2)"
    assert Point(1, tags=["a"]) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != (1, 2, 2)
    assert Point(1) != Named(1, name="n")
    assert hash(Point(1, tags=["a"])) == hash(Point(1)) == hash((1, 2, 2))
    assert len({Named(1, name="a"), Named(1, name="a"), Named(1, name="b")}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())
    loop = Counter()
    loop.inside = loop
    assert repr(loop) == "Counter(count=0, inside=...)"


def test_frozen_values_cannot_be_changed() -> None:
    made = Named(1, name="n")
    for name in ("x", "name"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(made, name, 1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        Point(1).other = 1  # type: ignore[attr-defined]  # the error is what is tested
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x  # type: ignore[misc]  # the error is what is tested
    changed = Counter()
    changed.count += 1
    assert changed == Counter(1)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)  # our own bytes
def test_values_are_copied_and_pickled(copied: Callable[[Any], Any]) -> None:
    for value in (Point(1, tags=["a"]), Named(1, name="n"), Counter(4)):
        assert copied(value) == value
    assert copied(Point(1, tags=["a"])).tags == ["a"]


def test_the_standard_librarys_tools_know_them() -> None:
    assert replace(Named(1, name="n"), x=4) == Named(4, name="n")
    assert [each.name for each in dataclasses.fields(Named)] == ["x", "y", "tags", "double", "name"]
    assert dataclasses.asdict(Counter(1)) == {"count": 1, "inside": None}
    assert list(inspect.signature(Named).parameters) == ["x", "y", "tags", "name"]
    assert inspect.signature(Named).parameters["name"].kind is inspect.Parameter.KEYWORD_ONLY
    match Counter(5):
        case Counter(count):
            assert count == 5


def test_copy_replace_of_newer_pythons_changes_a_copy() -> None:
    assert loose(Named(1, name="n")).__replace__(x=4) == Named(4, name="n")
    context = VibeTavernContext(message="a")
    changed = loose(context).__replace__(message="b")
    assert (changed.message, changed.drawn_seed) == ("b", context.drawn_seed)


def test_users_can_subclass_with_the_standard_decorator() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(Point):
        more: int = 0

    assert Mine(1, more=2).more == 2
    assert Mine(1) == Mine(1)
    with pytest.raises(FrozenInstanceError):
        Mine(1).more = 3  # type: ignore[misc]  # the error is what is tested
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Changed", (Point,), {"__annotations__": {"more": int}, "more": 0}))


def test_methods_of_the_class_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        """Has its own methods."""

        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert repr(Own(1)) == "own"
    assert Own(1) == 3
    assert hash(Own(1)) == 7

    @dataclass(frozen=True, slots=True, eq=False)
    class Identity:
        """Is equal to itself only."""

        x: int

    assert Identity(1) != Identity(1)


def test_init_is_written_when_a_class_has_many_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[type] = []
    write: Callable[..., Any] = _dataclass._write_init  # pyright: ignore[reportPrivateUsage]  # counted

    def counted(cls: type, **given: bool) -> Any:
        written.append(cls)
        return write(cls, **given)

    monkeypatch.setattr(_dataclass, "_write_init", counted)

    @dataclass(frozen=True, slots=True)
    class Late:
        """Made late."""

        x: int

    assert [Late(number).x for number in range(INSTANCES_WITHOUT_FUNCTION)] == [*range(INSTANCES_WITHOUT_FUNCTION)]
    assert written == []
    assert (Late(1).x, Late(2).x) == (1, 2)
    assert written == [Late]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("kw_only", [True, False])
def test_first_and_later_instances_are_those_of_the_standard_library(frozen: bool, slots: bool, kw_only: bool) -> None:
    """Whatever is passed: the same fields with the same values, or the same error."""

    def make() -> type[Any]:
        class Value:
            """A value."""

            constant: ClassVar[list[int]] = []
            a: int
            b: int = 2
            c: list[int] = field(default_factory=list[int])
            d: int = field(default=4, init=False)
            e: list[int] = field(default_factory=list[int], init=False)
            f: int = field(init=False)
            g: int = field(default=7, kw_only=True)

        return Value

    standard: Any = dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only)(make())
    own: Any = dataclass(frozen=frozen, slots=slots, kw_only=kw_only)(make())
    assert own.__match_args__ == standard.__match_args__
    assert [(each.name, each.kw_only, each.type) for each in dataclasses.fields(own)] == [
        (each.name, each.kw_only, each.type) for each in dataclasses.fields(standard)
    ]
    calls: list[tuple[tuple[object, ...], dict[str, Any]]] = [
        ((1,), {}),
        ((1, 3), {"g": 0}),
        ((1, 3, [5]), {}),
        ((1, 3, [5], 6), {}),
        ((), {}),
        ((), {"a": 1, "b": 5, "c": [1], "g": 9}),
        ((1,), {"a": 1}),
        ((), {"a": 1, "z": 1}),
        ((), {"a": 1, "d": 1}),
        ((), {"self": 1}),
    ]

    def outcome(cls: Any, arguments: tuple[object, ...], given: dict[str, Any]) -> object:
        try:
            made = cls(*arguments, **given)
        except TypeError as error:
            return str(error)
        return {name: getattr(made, name, None) for name in "abcdefg"}

    for _ in range(INSTANCES_WITHOUT_FUNCTION):
        for arguments, given in calls:
            assert outcome(own, arguments, given) == outcome(standard, arguments, given), (arguments, given)


def test_mistakes_are_found_when_a_class_is_defined() -> None:
    with pytest.raises(ValueError, match=r"the default of Wrong\.x can change: use default_factory"):
        dataclass()(type("Wrong", (), {"__annotations__": {"x": "list[int]"}, "x": []}))
    with pytest.raises(TypeError, match="both frozen or both not"):
        dataclass()(type("Changed", (Point,), {"__annotations__": {"more": "int"}, "more": 0}))


def test_builders_define_their_classes_with_it() -> None:
    """Half of the time to import a builder went into the standard decorator."""
    folder = Path(tavernkit.__file__).parent
    standard = re.compile(r"^from dataclasses import (?:\w+, )*dataclass\b|^@dataclasses\.dataclass", re.MULTILINE)
    rooms = [
        folder / room
        for room in ("budget", "cards", "lore", "macros", "prompt", "risu_ai", "silly_tavern", "stores", "text")
    ]
    files = [path for room in rooms for path in room.rglob("*.py")]
    assert files
    assert [path for path in files if standard.search(path.read_text(encoding="utf-8"))] == []


def test_a_copy_with_other_values() -> None:
    point = Point(3, tags=["a"])
    copied = copy_with(point, y=5)
    assert (copied.x, copied.y, copied.tags, copied.double) == (3, 5, ["a"], 6)
    assert type(copy_with(Named(1, name="n"), name="m")) is Named
    assert point == Point(3)
    with pytest.raises(TypeError, match="Point has no field 'z'"):
        copy_with(point, z=1)


def test_a_copy_with_changes_is_that_of_the_standard_library() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Two:
        one: int
        two: str = "b"
        made: int = dataclasses.field(init=False, default=3)

    value = Two(one=1)
    assert replaced(value, two="c") == dataclasses.replace(value, two="c")
    with pytest.raises(TypeError):
        replaced(value, three=3)
