"""Edits of documents: JSON Patch operations, applied to copies, and computed from two versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tavernkit._text import json_pointer
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import ConfigError
from tavernkit.studio.errors import StudioError

Operation: TypeAlias = Literal["add", "replace", "remove", "move"]

MAX_DEPTH: Final = 64
"""How deeply a value in a document may be nested."""

_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a document, as in JSON Patch (RFC 6902)."""

    document: str
    op: Operation
    path: str
    value: Json = None
    source: str = ""
    """Where ``move`` takes the value from."""

    def to_dict(self) -> JsonObject:
        """Return the edit as the page writes it."""
        body: JsonObject = {"document": self.document, "op": self.op, "path": self.path}
        if self.op in ("add", "replace"):
            body["value"] = self.value
        elif self.op == "move":
            body["from"] = self.source
        return body


def apply_edit(data: Json, edit: Edit) -> Json:
    """Return data with an edit applied. Only the containers along the path are copied.

    Raises:
        StudioError: The path does not exist.
    """
    try:
        return _apply(data, edit)
    except ConfigError as error:
        raise StudioError(422, str(error), code="bad_edit") from error


def _apply(data: Json, edit: Edit) -> Json:
    if edit.op == "move":
        if edit.path == edit.source:
            return data
        if edit.path.startswith(f"{edit.source}/"):
            raise ConfigError("a value cannot be moved into itself")
        value = _existing(data, edit.source)
        return _add(json_pointer.delete(data, edit.source), edit.path, value)
    if edit.op == "remove":
        return json_pointer.delete(data, edit.path)
    _check_depth(edit.value)
    if edit.op == "add":
        return _add(data, edit.path, edit.value)
    if same_json(_existing(data, edit.path), edit.value):
        return data
    return json_pointer.set_value(data, edit.path, edit.value)


def _add(data: Json, path: str, value: Json) -> Json:
    keys = json_pointer.tokens(path)
    parent = json_pointer.from_tokens(keys[:-1])
    inside = json_pointer.resolve(data, parent) if keys else None
    if not is_list(inside) or keys[-1] == "-":
        return json_pointer.set_value(data, path, value)
    if not keys[-1].isdecimal() or len(keys[-1]) > 9 or int(keys[-1]) > len(inside):
        raise ConfigError(f"the list at {parent!r} has no place {keys[-1]!r}")
    at = int(keys[-1])
    return json_pointer.set_value(data, parent, [*inside[:at], value, *inside[at:]])


def _existing(data: Json, path: str) -> Json:
    value = json_pointer.resolve(data, path, _MISSING)
    if value is _MISSING:
        raise ConfigError(f"the document has nothing at {path!r}")
    return value  # pyright: ignore[reportReturnType]  # a part of JSON is JSON


def _check_depth(value: Json) -> None:
    level: Sequence[Json] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level if is_object(each) or is_list(each) for inner in _members(each)]
        if not level:
            return
    raise ConfigError(f"the value is nested deeper than {MAX_DEPTH} levels")


def _members(value: Json) -> Sequence[Json]:
    return list(value.values()) if is_object(value) else value if is_list(value) else ()


def same_json(one: Json, other: Json) -> bool:
    """Return True if two values are the same JSON: ``true`` is not ``1``, and the order of keys matters."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if is_object(one) and is_object(other):
        return [*one] == [*other] and all(same_json(value, other[key]) for key, value in one.items())
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    return one == other


def edits_between(document: str, old: Json, new: Json) -> list[Edit]:
    """Return edits that turn one value into another. Identical objects are not compared.

    Args:
        document: The id of the document.
        old: The value as it is.
        new: The value as it should be.
    """
    return [*_between(document, old, new, "")]


def _between(document: str, old: Json, new: Json, path: str) -> Iterator[Edit]:
    if old is new:
        return
    if is_object(old) and is_object(new) and not _is_reordered(old, new):
        for key in old:
            if key not in new:
                yield Edit(document=document, op="remove", path=f"{path}/{json_pointer.escape(key)}")
        for key, value in new.items():
            place = f"{path}/{json_pointer.escape(key)}"
            if key in old:
                yield from _between(document, old[key], value, place)
            else:
                yield Edit(document=document, op="add", path=place, value=value)
    elif is_list(old) and is_list(new) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _between(document, before, after, f"{path}/{index}")
    elif not same_json(old, new):
        yield Edit(document=document, op="replace", path=path, value=new)


def _is_reordered(old: JsonObject, new: JsonObject) -> bool:
    """Return True if adding and removing keys would leave them in another order than the new one."""
    kept = [key for key in old if key in new]
    return [*kept, *(key for key in new if key not in old)] != [*new]
