"""The tools that a model may call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, cast

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import boolean, trim_blanks
from tavernkit._values import JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._json_schema import json_schema_of, without_empty_required
from tavernkit.vibe_tavern._options import names
from tavernkit.vibe_tavern.errors import ToolArgumentError

Expose = Literal["model", "all"]
"""Which tools: those the model may see, or all of them."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool: its name, what it is for, and the JSON schema of its arguments.

    ``parameters`` is a JSON schema, a pydantic model, a dataclass, an object with ``json_schema``, or nothing.
    Providers accept names of up to 128 letters, digits, ``_`` and ``-``. A tool that is not
    ``exposed_to_model`` is neither listed nor run for the model.
    """

    name: str
    """The name of the function."""
    description: str = ""
    """What the tool does, for the model."""
    parameters: object = field(default=None, hash=False)
    exposed_to_model: bool = True

    def __post_init__(self) -> None:
        name = trim_blanks(self.name)
        if not name:
            raise ConfigError("a tool needs a name", code="TOOL_NAME_REQUIRED")
        object.__setattr__(self, "name", name)
        object.__setattr__(
            self, "parameters", freeze_object(json_schema_of(self.parameters, "ToolDefinition.parameters"))
        )

    @classmethod
    def from_mapping(cls, value: Mapping[str, object]) -> ToolDefinition:
        """Read a definition from ``{name, description, parameters, exposed_to_model}``, or one in OpenAI's shape.

        Raises:
            ConfigError: A required key is missing.
        """
        function = value.get("function")
        if is_mapping(function):
            value = {"description": "", "parameters": None, **function}
        missing = [key for key in ("name", "description", "parameters") if key not in value]
        if missing:
            raise ConfigError(f"a tool definition needs {', '.join(missing)}", code="INVALID_TOOL_DEFINITION")
        return cls(
            name=str(value["name"]),
            description=str(value["description"] or ""),
            parameters=value["parameters"],
            exposed_to_model=boolean(value.get("exposed_to_model", True), default=False),
        )

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        assert is_mapping(self.parameters)
        return thaw_object(self.parameters)

    def to_openai(self) -> JsonObject:
        """Return the tool in the format of OpenAI's API."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": without_empty_required(self.schema),
            },
        }


class ToolSource(Protocol):
    """What the loop needs to know about tools."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Every tool, in order."""
        ...


class ToolRegistry:
    """Tools by name, in order.

    Raises:
        ConfigError: Two tools have the same name.
    """

    def __init__(self, definitions: Iterable[ToolDefinition | Mapping[str, object]] = ()) -> None:
        require("tools", definitions, Iterable, "a toolset such as FunctionToolset([…]), or a list of definitions")
        self.definitions: tuple[ToolDefinition, ...] = tuple(_definition(each) for each in definitions)
        seen: set[str] = set()
        for each in self.definitions:
            if each.name in seen:
                raise ConfigError(f"tool {each.name!r} is registered twice", code="DUPLICATE_TOOL")
            seen.add(each.name)

    def get(self, name: str, *, expose: Expose = "model") -> ToolDefinition | None:
        """Find a tool.

        Args:
            name: The name of the tool.
            expose: ``model`` finds only tools that the model may see, ``all`` finds hidden ones too.
        """
        return find_tool(self, name, expose=expose)

    def include(self, name: str, *, expose: Expose = "model") -> bool:
        """Return True if a tool exists (and may be seen by the model).

        Args:
            name: The tool's name.
            expose: ``model`` finds only tools that the model may see, ``all`` finds hidden ones too.
        """
        return self.get(name, expose=expose) is not None

    def openai_tools(self, *, expose: Expose = "model") -> list[JsonObject]:
        """Return the tools in the format of OpenAI's API."""
        return openai_tools(self, expose=expose)


class FilteredToolRegistry(ToolRegistry):
    """A filtered registry: allowed tools without denied ones. An empty list does not filter.

    Args:
        base: The registry to take tools from.
        allow: Names of tools to keep.
        deny: Names of tools to leave out.
    """

    def __init__(
        self, base: ToolSource, *, allow: str | Sequence[str] | None = None, deny: str | Sequence[str] | None = None
    ) -> None:
        allowed, denied = set(names(allow) or ()), set(names(deny) or ())
        super().__init__(
            each for each in base.definitions if (not allowed or each.name in allowed) and each.name not in denied
        )


def find_tool(source: ToolSource, name: str, *, expose: Expose = "model") -> ToolDefinition | None:
    """Find a tool in any source."""
    return next(
        (each for each in source.definitions if each.name == name and (expose == "all" or each.exposed_to_model)), None
    )


def openai_tools(source: ToolSource, *, expose: Expose = "model") -> list[JsonObject]:
    """Return the tools of any source, in the format of OpenAI's API."""
    return [each.to_openai() for each in source.definitions if expose == "all" or each.exposed_to_model]


def _definition(value: object) -> ToolDefinition:
    if is_mapping(value):
        return ToolDefinition.from_mapping(value)
    if not isinstance(value, ToolDefinition):
        advice = ": pass functions as FunctionToolset([…])" if callable(value) else ""
        raise ConfigError(
            f"a tool definition must be a ToolDefinition or a mapping, not {type(value).__name__}{advice}",
            code="INVALID_TOOL_DEFINITION",
        )
    return value


class Toolset(ToolSource, Protocol):
    """Tools with their executor: a set of functions, an MCP server, or an application's own."""

    def execute(self, name: str, args: JsonObject) -> object:
        """Run a tool; may return an awaitable.

        Args:
            name: The tool's name.
            args: Its arguments.
        """
        ...


class CombinedToolset:
    """The tools of several toolsets, each run by its own set; names must be unique.

    Raises:
        ConfigError: Two toolsets have a tool with the same name.
    """

    def __init__(self, *toolsets: Toolset) -> None:
        self._owners: dict[str, Toolset] = {}
        for toolset in toolsets:
            for definition in toolset.definitions:
                if definition.name in self._owners:
                    raise ConfigError(f"tool {definition.name!r} is in two toolsets", code="DUPLICATE_TOOL")
                self._owners[definition.name] = toolset
        self.definitions = tuple(definition for toolset in toolsets for definition in toolset.definitions)

    def execute(self, name: str, args: JsonObject, *, tool_call_id: str = "") -> object:
        """Run a tool: the executor of a tool loop.

        Args:
            name: The tool's name.
            args: Its arguments.
            tool_call_id: The id of the call, for toolsets with that parameter.

        Raises:
            ToolArgumentError: There is no such tool.
        """
        owner = self._owners.get(name)
        if owner is None:
            raise ToolArgumentError(f"No such tool: {name}")
        run = cast("Callable[..., object]", owner.execute)
        if "tool_call_id" in inspect.signature(run).parameters:
            return run(name, args, tool_call_id=tool_call_id)
        return run(name, args)
