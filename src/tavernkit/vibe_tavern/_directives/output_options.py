"""Options of one directives run: types, aliases, payloads, instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields

from tavernkit._arguments import check_values
from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject, is_mapping, shown
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._directives.registry import DirectiveDefinition, DirectiveRegistry
from tavernkit.vibe_tavern._directives.schema import SCHEMA_NAME
from tavernkit.vibe_tavern._directives.validator import PayloadValidator
from tavernkit.vibe_tavern._limits import MAX_DIRECTIVES_BYTES
from tavernkit.vibe_tavern._options import is_blank, positive_integer


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
                f"unknown structured_output_options: {', '.join(unknown)}", code="UNKNOWN_STRUCTURED_OUTPUT_OPTION"
            )
        given = {key: item for key, item in value.items() if item is not None}
        if "max_bytes" in given:
            given["max_bytes"] = positive_integer(given["max_bytes"], default=MAX_DIRECTIVES_BYTES)
        return cls(**given)  # pyright: ignore[reportArgumentType]  # read in __post_init__
