"""Payload validators from pydantic models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from tavernkit._text.json_pointer import from_tokens
from tavernkit._values import JsonObject
from tavernkit.vibe_tavern._directives.validator import PayloadValidator

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

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
