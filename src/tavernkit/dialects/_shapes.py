"""The building blocks of providers' messages and tools, defined once.

Dialects, the converters of SillyTavern and RisuAI, and models differ in when they write a piece; its format is the
provider's, and is defined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, thaw, thaw_object

AnthropicKind: TypeAlias = Literal[
    "text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"
]
ANTHROPIC_THINKING: Final = ("thinking", "redacted_thinking")
"""Blocks that must be sent back unchanged."""

GoogleKind: TypeAlias = Literal["text", "inlineData", "fileData", "functionCall", "functionResponse"]
_OPAQUE: Final = frozenset(("args", "response", "parametersJsonSchema", "responseJsonSchema"))
"""Google's fields with the caller's own JSON."""

OpenAIKind: TypeAlias = Literal["text", "image_url", "video_url", "audio_url", "input_audio", "file"]


def anthropic_block(kind: AnthropicKind, **fields: Json) -> JsonObject:
    """Make a block of an Anthropic message.

    >>> anthropic_block("text", text="Hi")
    {'type': 'text', 'text': 'Hi'}

    Args:
        kind: The kind of block.
        fields: Its fields.
    """
    return {"type": kind, **fields}


def anthropic_base64(media_type: Json, data: Json) -> JsonObject:
    """Make the ``source`` of an image or document that is sent along."""
    return {"type": "base64", "media_type": media_type, "data": data}


def google_part(kind: GoogleKind, value: Json) -> JsonObject:
    """Make a part of a Google content, with the names of its REST interface.

    >>> google_part("text", "Hi")
    {'text': 'Hi'}

    Args:
        kind: The kind of part.
        value: The text, or an object with the fields of this kind.
    """
    return {kind: value}


def openai_part(kind: OpenAIKind, value: Json) -> JsonObject:
    """Make a part of a message's content in OpenAI's shape.

    >>> openai_part("image_url", {"url": "https://a.example/b.png"})
    {'type': 'image_url', 'image_url': {'url': 'https://a.example/b.png'}}

    Args:
        kind: The kind of part.
        value: The text, or an object with the fields of this kind.
    """
    return {"type": kind, kind: value}


def split_data_url(url: object) -> tuple[str, str] | None:
    """Return the media type and the base64 data of a ``data:`` address, or None for any other."""
    if not isinstance(url, str) or not url.startswith("data:") or ";base64," not in url:
        return None
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return media_type, data


REMEMBERED_NAMES = 256


def camel_case(value: Json) -> Json:
    """Write field names as in Google's REST API; the caller's own JSON stays unchanged."""
    return _rename_keys(value, _camel)


def snake_case(value: Json) -> Json:
    """Write field names as in Google's libraries; the caller's own JSON stays unchanged."""
    return _rename_keys(value, _snake)


def _rename_keys(value: Json, rename: Callable[[str], str]) -> Json:
    if is_object(value):
        return {
            rename(name): item if isinstance(item, str) or _camel(name) in _OPAQUE else _rename_keys(item, rename)
            for name, item in value.items()
        }
    return [_rename_keys(item, rename) for item in value] if isinstance(value, list) else value


@lru_cache(REMEMBERED_NAMES)  # a request repeats the same few names thousands of times
def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@lru_cache(REMEMBERED_NAMES)
def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


DEFAULT_PLACEHOLDER = "[Start]"
"""The user's text if a conversation would begin with the model."""


def merge_neighbours(turns: Iterable[JsonObject], parts_key: str) -> list[JsonObject]:
    """Join neighbouring turns of the same role; turns without parts are dropped."""
    merged: list[JsonObject] = []
    for turn in turns:
        parts = turn[parts_key]
        if not is_list(parts) or not parts:
            continue
        last = merged[-1] if merged else None
        if last is not None and last["role"] == turn["role"] and is_list(joined := last[parts_key]):
            joined.extend(parts)
        else:
            merged.append({**turn, parts_key: list(parts)})
    return merged


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
