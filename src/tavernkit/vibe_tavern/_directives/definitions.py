"""The directive types of a run: their definitions, the options of the run, and the schema that asks for an envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from typing import TypeAlias

from tavernkit._arguments import check_values, require
from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, shown, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._json_schema import json_schema_of
from tavernkit.vibe_tavern._limits import MAX_DIRECTIVES_BYTES
from tavernkit.vibe_tavern._options import is_blank, positive_integer, suggestion

SCHEMA_NAME = "tavern_directives"
INSTRUCTIONS_HEADING = "Directive types you may use:"

PayloadValidator: TypeAlias = Callable[[str, JsonObject], object]
"""Gets the canonical type and the payload, which it may change.

A true value means invalid: text is the code, a mapping may have ``code`` and ``details``.
"""


@dataclass(frozen=True, slots=True)
class DirectiveDefinition:
    """One directive type: its name (``ui.toast``), what it is for, and other names that models use for it.

    ``payload`` may describe the payload: a JSON schema, a pydantic model or a dataclass.
    """

    type: str
    """The name of the type."""
    description: str = ""
    """What the directive does, for the instructions to the model."""
    aliases: Sequence[str] = ()
    """Other names that are read as this type."""
    payload: object = field(default=None, hash=False)

    def __post_init__(self) -> None:
        require("type", self.type, str)
        if not trim_blanks(self.type):
            raise ConfigError("a directive definition needs a type such as 'ui.toast'", code="DIRECTIVE_TYPE_REQUIRED")
        json_schema_of(self.payload, "DirectiveDefinition.payload")
        object.__setattr__(self, "type", trim_blanks(self.type))
        object.__setattr__(self, "aliases", tuple(unique_types(self.aliases)))

    @classmethod
    def from_mapping(cls, value: Mapping[str, object]) -> DirectiveDefinition:
        """Read a definition from ``{type, description, aliases, payload}``."""
        aliases = value.get("aliases")
        description = value.get("description")
        return cls(
            type=str(value.get("type") or ""),
            description="" if description is None else str(description),
            aliases=[str(alias) for alias in aliases] if is_sequence(aliases) else (),
            payload=value.get("payload"),
        )


class DirectiveRegistry:
    """Directive definitions in order, with lookup of types and aliases."""

    def __init__(self, definitions: Iterable[DirectiveDefinition | Mapping[str, object]] = ()) -> None:
        require("definitions", definitions, Iterable, "a list of directive definitions")
        self.definitions = tuple(_definition(each) for each in definitions)

    @property
    def types(self) -> list[str]:
        """All types, without duplicates."""
        return unique_types([each.type for each in self.definitions])

    @property
    def type_aliases(self) -> dict[str, str]:
        """Alias to type; the first definition of an alias wins."""
        aliases: dict[str, str] = {}
        for each in self.definitions:
            for alias in each.aliases:
                aliases.setdefault(alias, each.type)
        return aliases

    @property
    def payload_schemas(self) -> dict[str, JsonObject]:
        """Type to JSON schema of its payload, for the types that have one."""
        return {each.type: json_schema_of(each.payload) for each in self.definitions if each.payload is not None}

    @property
    def instructions_text(self) -> str:
        """Instructions that tell the model the types; empty if there are none."""
        described = {each.type: trim_blanks(each.description) for each in reversed(self.definitions)}
        lines = [f"* {kind} ({described[kind]})" if described[kind] else f"* {kind}" for kind in self.types]
        return "\n".join([INSTRUCTIONS_HEADING, *lines]) if lines else ""


def _definition(value: DirectiveDefinition | Mapping[str, object]) -> DirectiveDefinition:
    if isinstance(value, DirectiveDefinition):
        return value
    require("a directive definition", value, Mapping[str, object], "a DirectiveDefinition, or a mapping with type")
    return DirectiveDefinition.from_mapping(value)


@dataclass(frozen=True, kw_only=True)
class StructuredOutputOptions:
    """Types, aliases and instructions; by default from the registry."""

    registry: DirectiveRegistry | Iterable[DirectiveDefinition | Mapping[str, object]] | None = None
    """The directive types, as a registry or a list of definitions."""
    allowed_types: Sequence[str] | None = None
    """Names of the types that are accepted; None for those of the registry."""
    type_aliases: Mapping[str, str] | None = None
    """Other names for types; None for those of the registry."""
    payload_validator: PayloadValidator | None = None
    """Called with type and payload; a true result means invalid and gives the reason."""
    schema_name: str = SCHEMA_NAME
    """The name of the JSON schema in requests."""
    output_instructions: str | None = None
    """Instructions for the model; None for those of the registry."""
    max_bytes: int = MAX_DIRECTIVES_BYTES
    """The maximum size of an answer."""
    payload_schemas: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """JSON schemas of payloads by type; by default those of the registry."""

    def __post_init__(self) -> None:
        check_values({each.name: getattr(self, each.name) for each in fields(self)}, type(self))
        set_field = object.__setattr__
        given = self.registry
        registry = given if isinstance(given, DirectiveRegistry) else DirectiveRegistry(given or ())
        set_field(self, "registry", registry)
        if self.allowed_types is None:
            set_field(self, "allowed_types", registry.types)
        if self.type_aliases is None:
            set_field(self, "type_aliases", registry.type_aliases)
        instructions = self.output_instructions
        instructions = registry.instructions_text if instructions is None else trim_blanks(instructions)
        set_field(self, "output_instructions", instructions)
        if not self.payload_schemas:
            set_field(self, "payload_schemas", registry.payload_schemas)
        set_field(self, "schema_name", SCHEMA_NAME if is_blank(self.schema_name) else self.schema_name)
        set_field(self, "max_bytes", positive_integer(self.max_bytes) or MAX_DIRECTIVES_BYTES)

    @classmethod
    def from_mapping(cls, value: object) -> StructuredOutputOptions:
        """Return options, reading them from a mapping if necessary.

        Raises:
            ConfigError: ``value`` is not a mapping, or has an unknown option.
        """
        if isinstance(value, StructuredOutputOptions):
            return value
        if value is None:
            return cls()
        if not is_mapping(value):
            raise ConfigError(
                "structured_output_options must be a StructuredOutputOptions or a mapping, "
                f"not {type(value).__name__} {shown(value)}",
                code="INVALID_STRUCTURED_OUTPUT_OPTIONS",
            )
        unknown = sorted(set(value) - set(cls.__dataclass_fields__))
        if unknown:
            raise ConfigError(
                f"structured_output_options has no {unknown[0]!r}{suggestion(unknown[0], cls.__dataclass_fields__)}",
                code="UNKNOWN_STRUCTURED_OUTPUT_OPTION",
            )
        given = {key: item for key, item in value.items() if item is not None}
        if "max_bytes" in given:
            given["max_bytes"] = positive_integer(given["max_bytes"], default=MAX_DIRECTIVES_BYTES)
        return cls(**given)  # pyright: ignore[reportArgumentType]  # read in __post_init__


def response_format(
    *,
    strict: bool = True,
    name: str = SCHEMA_NAME,
    types: Sequence[str] | None = None,
    payload_schemas: Mapping[str, Mapping[str, object]] | None = None,
) -> JsonObject:
    """Build the ``json_schema`` response format.

    ``types`` becomes the enum of ``type``. With ``payload_schemas`` (type to JSON schema) each of those types has its
    own item schema; others have a free payload.
    """
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": strict, "schema": envelope_schema(types, payload_schemas)},
    }


def envelope_schema(
    types: Sequence[str] | None = None, payload_schemas: Mapping[str, Mapping[str, object]] | None = None
) -> JsonObject:
    """Build the JSON schema of the envelope."""
    known = unique_types(types)
    schemas = {kind: thaw_object(schema) for kind, schema in (payload_schemas or {}).items()}
    if schemas:
        free = [kind for kind in known if kind not in schemas]
        items: list[Json] = [_item([kind], schema) for kind, schema in schemas.items()]
        if free or not known:
            items.append(_item(free, _free_payload()))
        item: JsonObject = {"anyOf": items} if len(items) > 1 else _object(items[0])
    else:
        item = _item(known, _free_payload())
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["assistant_text", "directives"],
        "properties": {"assistant_text": {"type": "string"}, "directives": {"type": "array", "items": item}},
    }


def unique_types(types: Sequence[object] | None) -> list[str]:
    """Trim directive types, and remove blank ones and duplicates."""
    trimmed = (trim_blanks(str(kind)) for kind in types or () if kind is not None)
    return list(dict.fromkeys(kind for kind in trimmed if kind))


def _item(types: Sequence[str], payload: JsonObject) -> JsonObject:
    kind: JsonObject = {"type": "string"}
    if types:
        kind["enum"] = list[Json](types)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["type", "payload"],
        "properties": {"type": kind, "payload": payload},
    }


def _free_payload() -> JsonObject:
    return {"type": "object", "additionalProperties": True}


def _object(value: Json) -> JsonObject:
    assert isinstance(value, dict)
    return value
