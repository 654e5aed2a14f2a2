"""JSON schemas: made from mappings, pydantic models, dataclasses and other types, and checked against arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeGuard, cast, get_origin

from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, shown, thaw_object
from tavernkit.errors import ConfigError


def json_schema_of(source: object, name: str = "a schema") -> JsonObject:
    """Return a JSON schema as plain JSON.

    ``source`` is a mapping (used as the schema), None (an empty schema), an object with ``json_schema`` (an
    attribute or a method), or a type that pydantic can describe. ``name`` is what messages call it.
    """
    if source is None:
        return {}
    if is_mapping(source):
        return thaw_object(source)
    provided: object = getattr(source, "json_schema", None)
    if provided is not None:
        schema: object = provided() if callable(provided) else provided
        if is_mapping(schema):
            return thaw_object(schema)
        raise ConfigError(f"{name}: json_schema of {source!r} must give a mapping", code="INVALID_JSON_SCHEMA")
    return _described_by_pydantic(source, name)


def without_empty_required(schema: Mapping[str, object]) -> JsonObject:
    """Remove ``required: []`` at any depth: some providers refuse it."""
    return _prune_object(thaw_object(schema))


def _prune(value: Json) -> Json:
    if is_object(value):
        return _prune_object(value)
    if is_list(value):
        return [_prune(item) for item in value]
    return value


def _prune_object(value: JsonObject) -> JsonObject:
    return {key: _prune(item) for key, item in value.items() if not (key == "required" and item == [])}


def _described_by_pydantic(source: object, name: str) -> JsonObject:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    refused = ConfigError(
        f"{name} must be a JSON schema, a pydantic model or a dataclass, not {shown(source)}",
        code="INVALID_JSON_SCHEMA",
    )
    if not isinstance(source, type) and get_origin(source) is None:
        raise refused  # pydantic evaluates texts as Python code
    try:
        return TypeAdapter(cast("type[object]", source)).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise refused from error


_MAX_DEPTH = 50
_MAX_CHECKS = 110_000
_COMPARED = 16
"""How many choices and names in a schema count as one check."""


def check_arguments(args: object, schema: Mapping[str, object]) -> str | None:
    """Return what is wrong with arguments, as a message for the model, or None.

    Understands ``type``, ``required``, ``properties``, ``additionalProperties``, ``items``, ``enum``, ``const``,
    bounds of numbers, texts and lists, ``anyOf``, ``oneOf``, ``allOf`` and local ``$ref``. Unknown keywords are
    ignored, and so are checks that take too long, because a schema may refer to itself.
    """
    return _check(args, schema, _Root(schema), "arguments", 0)


class _Root:
    """The whole schema, and how many checks its parts may still take."""

    __slots__ = ("_checks_left", "schema")

    def __init__(self, schema: Mapping[str, object]) -> None:
        self.schema = schema
        self._checks_left = _MAX_CHECKS

    def may_check(self, schema: Mapping[str, object]) -> bool:
        """Count a check; large or distant parts of a schema count more."""
        lists = (schema.get(key) for key in ("enum", "required", "type", "$ref"))
        self._checks_left -= (
            1 + sum(len(each) for each in lists if isinstance(each, str) or is_sequence(each)) // _COMPARED
        )
        return self._checks_left >= 0


def _check(value: object, schema: object, root: _Root, where: str, depth: int) -> str | None:
    if not is_mapping(schema) or depth > _MAX_DEPTH or not root.may_check(schema):
        return None
    schema = _resolve(schema, root.schema)
    if not is_mapping(schema):
        return None
    for rule in (_type, _choice, _bounds):
        problem = rule(value, schema, where)
        if problem is not None:
            return problem

    def check(part: object, part_schema: object, place: str) -> str | None:
        return _check(part, part_schema, root, place, depth + 1)

    return _parts(value, schema, where, check) or _alternatives(value, schema, where, check)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_Check = Callable[[object, object, str], str | None]

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "object": is_object,
    "array": is_list,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def _type(value: object, schema: Mapping[str, object], where: str) -> str | None:
    given = schema.get("type")
    wanted = [str(each) for each in given] if is_sequence(given) else [given] if isinstance(given, str) else []
    known = [name for name in wanted if name in _TYPES]
    if known and len(known) == len(wanted) and not any(_TYPES[name](value) for name in known):
        return f"{where} must be of type {' or '.join(known)}"
    return None


def _choice(value: object, schema: Mapping[str, object], where: str) -> str | None:
    if "const" in schema and not _same(value, schema["const"]):
        return f"{where} must be {schema['const']!r}"
    choices = schema.get("enum")
    if is_sequence(choices) and not any(_same(value, choice) for choice in choices):
        return f"{where} must be one of {', '.join(repr(choice) for choice in choices)}"
    return None


def _bounds(value: object, schema: Mapping[str, object], where: str) -> str | None:
    size: float
    if _is_number(value):
        size, low, high, what = value, "minimum", "maximum", where
    elif isinstance(value, str):
        size, low, high, what = len(value), "minLength", "maxLength", f"the length of {where}"
    elif is_list(value):
        size, low, high, what = len(value), "minItems", "maxItems", f"the number of items of {where}"
    else:
        return None
    least, most = schema.get(low), schema.get(high)
    if isinstance(least, (int, float)) and size < least:
        return f"{what} must be at least {least}"
    if isinstance(most, (int, float)) and size > most:
        return f"{what} must be at most {most}"
    return None


def _parts(value: object, schema: Mapping[str, object], where: str, check: _Check) -> str | None:
    if is_object(value):
        return _object_parts(value, schema, where, check)
    if is_list(value):
        problems = (check(item, schema.get("items"), f"{where}[{index}]") for index, item in enumerate(value))
        return _first(problems)
    return None


def _object_parts(value: Mapping[str, object], schema: Mapping[str, object], where: str, check: _Check) -> str | None:
    required = schema.get("required")
    if is_sequence(required):
        missing = [name for name in required if isinstance(name, str) and name not in value]
        if missing:
            return f"{where} must have {', '.join(missing)}"
    given = schema.get("properties")
    properties: Mapping[str, object] = given if is_mapping(given) else {}
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name not in properties and others is False:
            return f"{where} must not have {name}"
        problem = check(item, properties.get(name, others), f"{where}.{name}")
        if problem is not None:
            return problem
    return None


def _alternatives(value: object, schema: Mapping[str, object], where: str, check: _Check) -> str | None:
    every = schema.get("allOf")
    if is_sequence(every):
        problem = _first(check(value, part, where) for part in every)
        if problem is not None:
            return problem
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if is_sequence(options) and options:
            problems = [check(value, option, where) for option in options]
            if all(problems):
                return problems[0] if len(problems) == 1 else f"{where} fits none of the allowed forms: {problems[0]}"
    return None


def _resolve(schema: Mapping[str, object], root: Mapping[str, object]) -> object:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target: object = root
    for part in reference[2:].split("/"):
        target = target.get(part.replace("~1", "/").replace("~0", "~")) if is_mapping(target) else None
    return target


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _same(left: object, right: object) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)
