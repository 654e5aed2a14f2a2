"""Tool definitions and the choice between them: OpenAI's shape in, a provider's shape out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._values import Json, JsonObject, is_mapping, thaw, thaw_object

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def anthropic_tools(tools: Sequence[Mapping[str, object]]) -> list[Json]:
    """Translate tool definitions; those in Anthropic's own shape stay unchanged."""
    translated: list[Json] = []
    for tool in tools:
        function = tool.get("function")
        if not is_mapping(function):
            translated.append(thaw_object(tool))
            continue
        definition: JsonObject = {"name": str(function.get("name") or "")}
        if function.get("description"):
            definition["description"] = thaw(function["description"])
        definition["input_schema"] = thaw(function.get("parameters") or _NO_PARAMETERS)
        if tool.get("cache_control"):
            definition["cache_control"] = thaw(tool["cache_control"])
        translated.append(definition)
    return translated


def anthropic_tool_choice(choice: object, *, parallel_tool_calls: bool | None = None) -> JsonObject | None:
    """Translate ``auto``, ``none``, ``required`` or a named function; values in Anthropic's shape stay unchanged.

    Args:
        choice: OpenAI's ``tool_choice``.
        parallel_tool_calls: OpenAI's option of that name; None leaves it to the provider.
    """
    name = _function_name(choice)
    translated: JsonObject | None = None
    if name is not None:
        translated = {"type": "tool", "name": name}
    elif isinstance(choice, str):
        translated = {"type": {"required": "any"}.get(choice, choice)}
    elif is_mapping(choice):
        translated = thaw_object(choice)
    if parallel_tool_calls is False:
        translated = translated or {"type": "auto"}
        if translated["type"] != "none":
            translated["disable_parallel_tool_use"] = True
    return translated


def google_tools(tools: Sequence[Mapping[str, object]]) -> list[Json]:
    """Translate tool definitions into one list of function declarations; Google's own tools stay unchanged."""
    declarations: list[Json] = []
    others: list[Json] = []
    for tool in tools:
        function = tool.get("function")
        if not is_mapping(function):
            others.append(thaw_object(tool))
            continue
        declaration: JsonObject = {"name": str(function.get("name") or "")}
        if function.get("description"):
            declaration["description"] = thaw(function["description"])
        if function.get("parameters"):
            declaration["parameters_json_schema"] = thaw(function["parameters"])
        declarations.append(declaration)
    return [{"function_declarations": declarations}, *others] if declarations else others


def google_tool_config(choice: object) -> JsonObject | None:
    """Translate ``auto``, ``none``, ``required`` or a named function."""
    name = _function_name(choice)
    if name is not None:
        config: JsonObject = {"mode": "ANY", "allowed_function_names": [name]}
    elif isinstance(choice, str):
        config = {"mode": {"required": "ANY"}.get(choice, choice.upper())}
    else:
        return None
    return {"function_calling_config": config}


def _function_name(choice: object) -> str | None:
    function = choice.get("function") if is_mapping(choice) else None
    return str(function.get("name") or "") if is_mapping(function) else None
