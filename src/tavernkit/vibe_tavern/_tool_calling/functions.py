"""Tools from typed Python functions: the schema comes from the signature, descriptions from the docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints, overload

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping, is_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition
from tavernkit.vibe_tavern.errors import ToolArgumentError

if TYPE_CHECKING:
    from pydantic import BaseModel


FunctionT = TypeVar("FunctionT", bound=Callable[..., object])

TOOL_CALL_ID: Final = "tool_call_id"
"""A parameter with this name gets the id of the call and is not shown to the model."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """One function as a tool. Arguments are checked and converted by the annotations before it is called."""

    definition: ToolDefinition
    function: Callable[..., object]
    arguments: type[BaseModel]
    takes_call_id: bool

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        exposed_to_model: bool = True,
    ) -> FunctionTool:
        """Make a tool from a function: every parameter needs an annotation; ``*args`` and ``**kwargs`` are refused."""
        tool_name = name or getattr(function, "__name__", "")
        if not _NAME.fullmatch(tool_name):
            raise ConfigError(
                f"a tool name has 1 to 128 letters, digits, _ and -: pass name=... instead of {tool_name!r}",
                code="INVALID_TOOL_NAME",
            )
        documented = read_docstring(inspect.getdoc(function) or "")
        model, takes_call_id = _argument_model(function, tool_name, documented.parameters)
        definition = ToolDefinition(
            name=tool_name,
            description=documented.summary if description is None else description,
            parameters=_schema(model),
            exposed_to_model=exposed_to_model,
        )
        return cls(definition, function, model, takes_call_id)

    def parse(self, args: JsonObject) -> dict[str, object]:
        """Check and convert arguments; raises ``ToolArgumentError`` with a message for the model."""
        from pydantic import ValidationError

        try:
            parsed = self.arguments.model_validate(args)
        except ValidationError as error:
            raise ToolArgumentError(_explain(error)) from None
        fields = self.arguments.model_fields
        return {str(fields[name].alias): getattr(parsed, name) for name in fields if name in parsed.model_fields_set}


class FunctionToolset:
    """Functions as tools, with the executor that runs them.

    >>> tools = FunctionToolset()
    >>> @tools.tool
    ... def look_up(name: str) -> str:
    ...     "Look a name up."
    ...     return f"{name} is a lighthouse keeper"
    >>> [definition.name for definition in tools.definitions]
    ['look_up']

    The toolset goes to ``ToolLoopRunner(runner, config, tools=tools)``.
    """

    def __init__(self, functions: Iterable[Callable[..., object] | FunctionTool] = ()) -> None:
        self._tools: dict[str, FunctionTool] = {}
        for function in functions:
            self.add(function)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Every tool, in order."""
        return tuple(tool.definition for tool in self._tools.values())

    def add(self, function: Callable[..., object] | FunctionTool, **options: Any) -> FunctionTool:
        """Add a function; ``name``, ``description`` and ``exposed_to_model`` may be given.

        Args:
            function: A typed function with a docstring.
            options: These three options.

        Raises:
            ConfigError: A tool with that name exists.
        """
        tool = function if isinstance(function, FunctionTool) else FunctionTool.of(function, **options)
        if tool.definition.name in self._tools:
            raise ConfigError(f"tool {tool.definition.name!r} is registered twice", code="DUPLICATE_TOOL")
        self._tools[tool.definition.name] = tool
        return tool

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def tool(
        self, /, *, name: str | None = None, description: str | None = None, exposed_to_model: bool = True
    ) -> Callable[[FunctionT], FunctionT]: ...

    def tool(
        self, function: FunctionT | None = None, /, **options: Any
    ) -> FunctionT | Callable[[FunctionT], FunctionT]:
        """Add a function, as a decorator.

        Args:
            function: A typed function with a docstring; none if the decorator has options.
            options: ``name``, ``description`` and ``exposed_to_model``, as for ``add()``.
        """

        def register(decorated: FunctionT) -> FunctionT:
            self.add(decorated, **options)
            return decorated

        return register if function is None else register(function)

    def execute(self, name: str, args: JsonObject, *, tool_call_id: str = "") -> object:
        """Run a tool: the executor of a tool loop, which calls it in a thread. May return a coroutine.

        Args:
            name: The tool's name.
            args: Its arguments.
            tool_call_id: The id of the call, for functions with that parameter.

        Raises:
            ToolArgumentError: There is no such tool, or the arguments do not fit it.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolArgumentError(f"No such tool: {name}")
        arguments = tool.parse(args)
        if tool.takes_call_id:
            arguments[TOOL_CALL_ID] = tool_call_id
        result = tool.function(**arguments)
        return _await_result(cast("Awaitable[object]", result)) if inspect.isawaitable(result) else _jsonable(result)


async def _await_result(call: Awaitable[object]) -> object:
    return _jsonable(await call)


def _argument_model(
    function: Callable[..., object], tool_name: str, documented: Mapping[str, str]
) -> tuple[type[BaseModel], bool]:
    from pydantic import ConfigDict, Field, PydanticUserError, create_model
    from pydantic.fields import FieldInfo

    fields: dict[str, Any] = {}
    takes_call_id = False
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(
            f"{tool_name}: cannot read its annotations: {error}", code="INVALID_TOOL_SIGNATURE"
        ) from error
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == TOOL_CALL_ID:
            takes_call_id = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(
                f"{tool_name}: parameter {parameter.name!r} cannot be passed by name", code="INVALID_TOOL_SIGNATURE"
            )
        if parameter.name not in hints:
            raise ConfigError(
                f"{tool_name}: parameter {parameter.name!r} needs an annotation", code="INVALID_TOOL_SIGNATURE"
            )
        if isinstance(parameter.default, FieldInfo):
            raise ConfigError(
                f"{tool_name}: write parameter {parameter.name!r} as Annotated[type, Field(…)] = default",
                code="INVALID_TOOL_SIGNATURE",
            )
        hint = hints[parameter.name]
        described = FieldInfo.from_annotation(hint).description or documented.get(parameter.name)
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        # A parameter may have a name that pydantic refuses for a field, such as "_id", or uses itself, such as "json".
        alias = Field(alias=parameter.name, description=described)
        fields[f"argument_{len(fields)}"] = (Annotated[hint, alias], default)
    try:
        model = create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigError(f"{tool_name}: {error}", code="INVALID_TOOL_SIGNATURE") from error
    return model, takes_call_id


def _schema(model: type[BaseModel]) -> JsonObject:
    schema = _without_titles(model.model_json_schema())
    assert is_object(schema)
    return schema


_VALUES: Final = frozenset(("default", "const", "enum", "examples"))
"""Keywords of a schema whose values are not schemas."""


def _without_titles(value: object) -> object:
    """Remove the titles that pydantic adds, which only repeat the names."""
    if is_mapping(value):
        inner = {key: item if key in _VALUES else _without_titles(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if not (key == "title" and isinstance(item, str))}
    if isinstance(value, list):
        return [_without_titles(item) for item in cast("list[object]", value)]
    return value


def _explain(error: Any) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}" for each in problems
    )


def _jsonable(value: object) -> object:
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(value, fallback=repr)
    except ValueError as error:  # which would count as a mistake in the arguments
        raise TypeError(f"the tool's result cannot be written as JSON: {error}") from error


_GOOGLE_HEADING: Final = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_SECTION: Final = re.compile(r"(?:Returns?|Yields?|Raises|Examples?|Notes?|Args|Arguments|Parameters|Attributes):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SPHINX_ENTRY: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")
_SPHINX_FIELD: Final = re.compile(r":\w+[^:]*:")
_NUMPY_HEADING: Final = re.compile(r"Parameters\s*\n-{3,}\s*\n")
_NUMPY_ENTRY: Final = re.compile(r"(\w+)\s*(?::.*)?")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A description, and the descriptions of parameters."""

    summary: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str) -> Docstring:
    """Read a docstring in the style of Google, Sphinx or NumPy; sections other than parameters are left out."""
    numpy = _NUMPY_HEADING.search(text)
    if numpy is not None:
        return Docstring(text[: numpy.start()].strip(), _numpy_parameters(text[numpy.end() :]))
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if _SPHINX_ENTRY.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip(), _sphinx_parameters(lines[index:]))
        if _GOOGLE_HEADING.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip(), _google_parameters(lines[index + 1 :]))
        if _SECTION.fullmatch(line.strip()):
            return Docstring("\n".join(lines[:index]).strip())
    return Docstring(text.strip())


def _google_parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    indent: int | None = None
    for line in lines:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            break
        indent = depth if indent is None else indent
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if depth == indent else None
        if entry is not None:
            name = entry.group(1)
            found[name] = entry.group(2).strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _sphinx_parameters(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _SPHINX_ENTRY.fullmatch(line.strip())
        if entry is not None:
            name = entry.group(1)
            found[name] = entry.group(2).strip()
        elif _SPHINX_FIELD.match(line.strip()):
            name = ""
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _numpy_parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        if index + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[index + 1].strip()):
            break
        if not line[0].isspace():
            entry = _NUMPY_ENTRY.fullmatch(line.strip())
            name = entry.group(1) if entry else ""
            if name:
                found[name] = ""
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
