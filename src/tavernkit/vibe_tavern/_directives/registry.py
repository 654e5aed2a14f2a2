"""The directive types an application offers to the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject, is_sequence
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._directives.schema import unique_types
from tavernkit.vibe_tavern._json_schema import json_schema_of

INSTRUCTIONS_HEADING = "Directive types you may use:"


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
    return value if isinstance(value, DirectiveDefinition) else DirectiveDefinition.from_mapping(value)
