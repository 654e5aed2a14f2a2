"""Reads a directives envelope: finds the JSON object in an answer and checks it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Literal

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.json_pointer import from_tokens
from tavernkit._text.strict_json import plain_text, without_fence
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, thaw, thaw_object
from tavernkit.vibe_tavern._directives.definitions import PayloadValidator, unique_types
from tavernkit.vibe_tavern._limits import (
    MAX_DIRECTIVES_BYTES,
    MAX_OBJECTS_TRIED,
    MAX_REPAIRED_BYTES,
    SAMPLE_CHARACTERS,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


_WRAPPERS = ("directives", "json")
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
"""Braces, and whole strings, so that braces inside them do not count."""


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The object that was found, or an error code: EMPTY, TOO_LARGE, NOT_OBJECT, INVALID_JSON."""

    value: JsonObject | None = None
    code: str | None = None
    details: JsonObject | None = None

    @property
    def ok(self) -> bool:
        """True if an object was found."""
        return self.code is None

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        if self.code is None:
            return {"ok": True, "value": self.value}
        failure: JsonObject = {"ok": False, "code": self.code}
        if self.details is not None:
            failure["details"] = self.details
        return failure


def parse_json(content: object, *, max_bytes: int = MAX_DIRECTIVES_BYTES, repair: bool = False) -> ParseResult:
    """Read a JSON object from an answer, even inside tags, code fences or prose.

    ``repair`` also accepts text that is nearly JSON (a trailing comma, a missing brace, an earlier ``{`` in prose);
    without it, such text is refused, so that the model can be asked again.
    """
    if is_mapping(content):
        return ParseResult(value=thaw_object(content))
    text = "" if content is None else trim_blanks(str(content))
    if not text:
        return ParseResult(code="EMPTY")
    if strict_json.byte_length(text) > max_bytes:
        return ParseResult(code="TOO_LARGE", details={"max_bytes": max_bytes})
    inner = _unwrap(text)
    try:
        return _object_or_error(strict_json.loads(inner))
    except ValueError:
        pass
    for candidate in islice(_balanced_objects(inner), MAX_OBJECTS_TRIED if repair else 1):
        try:
            return _object_or_error(strict_json.loads(candidate))
        except ValueError:
            continue
    repaired = _repair(inner) if repair else None
    if repaired is not None:
        return ParseResult(value=repaired)
    return ParseResult(code="INVALID_JSON", details={"sample": text[:SAMPLE_CHARACTERS]})


def _object_or_error(value: Json) -> ParseResult:
    return ParseResult(value=value) if is_object(value) else ParseResult(code="NOT_OBJECT")


def _unwrap(text: str) -> str:
    for tag in _WRAPPERS:
        inner = _inside(text, f"<{tag}>", f"</{tag}>")
        if inner:  # the first tag counts, even inside a text of the JSON; an empty one does not
            text = inner
            break
    return without_fence(text, labels=("json",))


def _inside(text: str, opening: str, closing: str) -> str:
    start = text.find(opening)
    if start < 0:
        return ""
    start += len(opening)
    end = text.find(closing, start)
    return trim_blanks(text[start:end]) if end >= 0 else ""


def _balanced_objects(text: str) -> Iterator[str]:
    """Yield balanced ``{...}`` parts of a text; an unclosed brace gives an empty one."""
    start = text.find("{")
    while start >= 0:
        end = _closing_brace(text, start)
        yield "" if end is None else text[start : end + 1]
        start = text.find("{", start + 1 if end is None else end + 1)


def _closing_brace(text: str, start: int) -> int | None:
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        if token.group() == "{":
            depth += 1
        elif token.group() == "}":
            depth -= 1
            if depth == 0:
                return token.start()
    return None


def _repair(text: str) -> JsonObject | None:
    import json_repair

    start = text.find("{")
    nearly = text[start:] if start >= 0 else ""
    if not nearly or strict_json.byte_length(nearly) > MAX_REPAIRED_BYTES or strict_json.is_too_deep(nearly):
        return None
    try:
        checked = strict_json.loads(strict_json.compact(json_repair.loads(nearly)))
    except Exception:  # noqa: BLE001  # foreign code: it also fails assertions of its own
        return None
    return checked if is_object(checked) and checked else None


_NOT_TOKEN = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """A valid envelope with warnings about dropped parts, or an error code."""

    value: JsonObject | None = None
    warnings: Sequence[JsonObject] = field(default_factory=list[JsonObject])
    code: str | None = None

    @property
    def ok(self) -> bool:
        """True if the envelope can be used."""
        return self.code is None

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        if self.code is None:
            return {"ok": True, "value": self.value, "warnings": list(self.warnings)}
        return {"ok": False, "code": self.code, "details": {}}


def validate(
    envelope: object,
    *,
    allowed_types: Sequence[str] | None = None,
    type_aliases: Mapping[str, str] | None = None,
    payload_validator: PayloadValidator | None = None,
) -> ValidationResult:
    """Check an envelope: invalid directives are dropped, each with a warning.

    Keys and types match in any case and with any separators (``Assistant-Text``, ``ui_toast`` for ``ui.toast``).
    """
    text = _lookup(envelope, "assistant_text")
    if not isinstance(text, str):
        return ValidationResult(code="MISSING_ASSISTANT_TEXT")
    given = _lookup(envelope, "directives")
    if not is_list(given):
        return ValidationResult(code="MISSING_DIRECTIVES")
    types = _Types(allowed_types, type_aliases)
    directives: list[Json] = []
    warnings: list[JsonObject] = []
    for index, directive in enumerate(given):
        canonical, warning = _directive(directive, types, payload_validator)
        if canonical is not None:
            directives.append(canonical)
        else:
            warnings.append({"index": index, **warning})
    return ValidationResult(value={"assistant_text": text, "directives": directives}, warnings=warnings)


def token(text: str) -> str:
    """Normalise a name: lower-case letters and digits, ``_`` for everything between them."""
    reduced = _NOT_TOKEN.sub("_", trim_blanks(text).lower())
    return reduced.removeprefix("_").removesuffix("_")  # letters of other scripts are separators too


class _Types:
    def __init__(self, allowed: Sequence[str] | None, aliases: Mapping[str, str] | None) -> None:
        known = unique_types(allowed)
        self._open = not known
        self._by_token = {token(kind): kind for kind in known}
        self._aliases: dict[str, str] = {}
        for alias, target in (aliases or {}).items():
            kind = trim_blanks(str(target)) if self._open else self._by_token.get(token(str(target)))
            if kind and token(str(alias)):
                self._aliases.setdefault(token(str(alias)), kind)  # aliases of types that are not allowed are ignored

    def canonical(self, name: str) -> str | None:
        found = token(name)
        return self._by_token.get(found) or self._aliases.get(found) or (name if self._open else None)


def _directive(
    directive: Json, types: _Types, payload_validator: PayloadValidator | None
) -> tuple[JsonObject | None, JsonObject]:
    if not is_object(directive):
        return None, {"code": "DIRECTIVE_NOT_OBJECT"}
    name = trim_blanks(plain_text(_lookup(directive, "type")))
    if not token(name):
        return None, {"code": "MISSING_TYPE"}
    kind = types.canonical(name)
    if kind is None:
        return None, {"code": "UNKNOWN_DIRECTIVE_TYPE", "type": name}
    payload = _lookup(directive, "payload")
    if not is_object(payload):
        return None, {"code": "MISSING_PAYLOAD", "type": kind}
    problem = _problem(kind, payload, payload_validator)
    if problem is not None:
        return None, {**problem, "type": kind}
    return {"type": kind, "payload": payload}, {}


def _problem(kind: str, payload: JsonObject, payload_validator: PayloadValidator | None) -> JsonObject | None:
    if payload_validator is None:
        return None
    try:
        verdict = payload_validator(kind, payload)
    except Exception as error:  # noqa: BLE001  # a validator's bug must not cost the whole answer
        return {"code": "PAYLOAD_VALIDATOR_ERROR", "details": {"error": f"{type(error).__name__}: {error}"}}
    if verdict is None or verdict is False:
        return None
    if isinstance(verdict, str):
        return {"code": verdict if trim_blanks(verdict) else "PAYLOAD_INVALID"}
    if is_mapping(verdict):
        details = verdict.get("details")
        problem: JsonObject = {"code": trim_blanks(plain_text(verdict.get("code"))) or "PAYLOAD_INVALID"}
        if is_mapping(details):
            problem["details"] = thaw_object(details)
        return problem
    return {"code": "PAYLOAD_INVALID"}


def _lookup(mapping: object, key: str) -> Json:
    if not is_mapping(mapping):
        return None
    if key in mapping:
        return thaw(mapping[key])
    return next((thaw(value) for name, value in mapping.items() if token(str(name)) == key), None)


ErrorFormat = Literal["flat", "json_pointer"]


def pydantic_payload_validator(
    models: Mapping[str, type[BaseModel]], *, error_format: ErrorFormat = "flat"
) -> PayloadValidator:
    """Make a payload validator that checks each type with its model; types without a model are accepted.

    Errors are ``{field: [messages]}`` (``flat``, fields joined by dots) or ``[{pointer, message}]``
    (``json_pointer``). A valid payload is not changed.

    Args:
        models: Pydantic models by directive type.
        error_format: ``flat`` or ``json_pointer``.
    """

    def check(kind: str, payload: JsonObject) -> JsonObject | None:
        from pydantic import BaseModel, ValidationError

        model = models.get(kind)
        if model is None:
            return None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            return {"code": "PAYLOAD_VALIDATOR_INVALID_MODEL", "details": {"type": kind}}
        try:
            model.model_validate(payload)
        except ValidationError as error:
            details: JsonObject = {"format": error_format}
            details["errors"] = _flat(error) if error_format == "flat" else [*_pointers(error)]
            return {"code": "PAYLOAD_INVALID", "details": details}
        return None

    return check


def _flat(error: ValidationError) -> JsonObject:
    errors: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        errors.setdefault(".".join(str(part) for part in problem["loc"]), []).append(problem["msg"])
    return {field: [*messages] for field, messages in errors.items()}


def _pointers(error: ValidationError) -> list[JsonObject]:
    return [
        {"pointer": from_tokens([str(part) for part in problem["loc"]]), "message": problem["msg"]}
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
