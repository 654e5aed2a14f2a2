"""Named transforms of messages, tools, tool calls, results and responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.verbatim_masker import mask, unmask
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import ConfigError, Warn
from tavernkit.vibe_tavern._options import option_name
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig

TransformT = TypeVar("TransformT", bound=Callable[..., object])


class TransformRegistry(Generic[TransformT]):
    """Transforms of one kind by name; names are compared without case and hyphens.

    ``copy()`` returns a registry that can be changed without affecting the shared one.
    """

    def __init__(self, kind: str, transforms: Mapping[str, TransformT]) -> None:
        self.kind = kind
        self._transforms = {option_name(name): transform for name, transform in transforms.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Every name."""
        return tuple(self._transforms)

    def register(self, name: str, transform: TransformT) -> None:
        """Add a transform; it replaces one with the same name."""
        if not option_name(name) or not callable(transform):
            raise ConfigError(f"a {self.kind} transform needs a name and a callable", code="INVALID_TRANSFORM")
        self._transforms = {**self._transforms, option_name(name): transform}

    def copy(self) -> TransformRegistry[TransformT]:
        """An independent registry with the same transforms."""
        return TransformRegistry(self.kind, self._transforms)

    def resolve(self, names: Iterable[str], *, strict: bool = False, warn: Warn | None = None) -> list[TransformT]:
        """Find transforms in order. Unknown names are errors in strict mode, otherwise skipped with a warning."""
        found: list[TransformT] = []
        for name in names:
            transform = self._transforms.get(option_name(name))
            if transform is not None:
                found.append(transform)
                continue
            message = f"there is no {self.kind} transform {name!r}; there are {', '.join(self._transforms)}"
            if strict:
                raise ConfigError(message, code=f"UNKNOWN_{self.kind.upper()}_TRANSFORM")
            if warn is not None:
                warn(message)
        return found


ResponseTransform: TypeAlias = Callable[[JsonObject, OutputTagsConfig], object]
"""Gets the assistant message, to be changed in place, and the run's output-tags options."""

_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"
_NAME_AND_JSON = re.compile(r"([\w.\-]+)\s*(\{.*\})", re.DOTALL | re.ASCII)
_BARE_NAME = re.compile(r"[\w.\-]+", re.ASCII)


def function_call_to_tool_calls(message: JsonObject, _: OutputTagsConfig) -> None:
    """Read the legacy ``function_call`` as a tool call."""
    call = message.get("function_call")
    if message.get("tool_calls") or not is_object(call):
        return
    name = call.get("name")
    if not isinstance(name, str) or not trim_blanks(name):
        return
    message["tool_calls"] = [_tool_call("call_1", name, call.get("arguments"))]
    del message["function_call"]


def tool_calls_object_to_array(message: JsonObject, _: OutputTagsConfig) -> None:
    """Read a single tool call as a list of one."""
    calls = message.get("tool_calls")
    if is_object(calls):
        message["tool_calls"] = [calls]


def arguments_json_string_if_hash(message: JsonObject, _: OutputTagsConfig) -> None:
    """Convert arguments that are an object or list to JSON text."""
    calls = message.get("tool_calls")
    for call in calls if is_list(calls) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(function) and isinstance(function.get("arguments"), (dict, list)):
            function["arguments"] = strict_json.compact(function["arguments"])


def content_tags_to_tool_calls(message: JsonObject, output_tags: OutputTagsConfig) -> None:
    """Read ``<tool_call>`` tags in the text as tool calls; code and escaped tags stay text.

    A tag contains JSON with a name and arguments, or ``name {json}``, or only a name. Unreadable tags stay.
    """
    content = message.get("content")
    if message.get("tool_calls") or not isinstance(content, str) or _OPENING not in content:
        return
    masked, placeholders = mask(content, output_tags.escape_hatch)
    calls: list[Json] = []
    kept: list[str] = []
    position = 0
    while (start := masked.find(_OPENING, position)) >= 0:
        end = masked.find(_CLOSING, start)
        if end < 0:
            break
        inside = unmask(masked[start + len(_OPENING) : end], placeholders)
        call = _payload(trim_blanks(inside), len(calls) + 1)
        end += len(_CLOSING)
        kept.append(masked[position : start if call else end])  # ids number what could be read, not the tags
        calls += [call] if call else []
        position = end
    rest = unmask("".join([*kept, masked[position:]]), placeholders)
    message["content"] = trim_blanks(rest) if calls else rest
    if calls:
        message["tool_calls"] = calls


response_transforms: TransformRegistry[ResponseTransform] = TransformRegistry(
    "response",
    {
        "assistant_function_call_to_tool_calls": function_call_to_tool_calls,
        "assistant_tool_calls_object_to_array": tool_calls_object_to_array,
        "assistant_tool_calls_arguments_json_string_if_hash": arguments_json_string_if_hash,
        "assistant_content_tool_call_tags_to_tool_calls": content_tags_to_tool_calls,
    },
)


def _payload(text: str, number: int) -> JsonObject | None:
    identity = f"tag_call_{number}"
    try:
        value = strict_json.loads(text)
    except ValueError:
        match = _NAME_AND_JSON.fullmatch(text)
        if match:
            return _tool_call(identity, match.group(1), match.group(2))
        return _tool_call(identity, text, "{}") if _BARE_NAME.fullmatch(text) else None
    if not is_object(value):
        return None
    function = value.get("function")
    described = function if is_object(function) else value
    name = described.get("name")
    if not isinstance(name, str) or not trim_blanks(name):
        return None
    arguments = described.get("arguments")
    if arguments is None:
        arguments = described.get("args")
    if arguments is None:
        arguments = {}
    # A list or number becomes the arguments as well: the loop answers it as invalid.
    return _tool_call(identity, name, arguments if isinstance(arguments, str) else strict_json.compact(arguments))


def _tool_call(identity: str, name: str, arguments: Json) -> JsonObject:
    return {"id": identity, "type": "function", "function": {"name": trim_blanks(name), "arguments": arguments}}


ToolResultTransform: TypeAlias = Callable[..., dict[str, object] | None]
"""Called as ``transform(envelope, tool_name=…, tool_call_id=…)``; changes it in place, or returns another one."""


def compact_envelope(envelope: dict[str, object], *, tool_name: str, tool_call_id: str) -> dict[str, object]:
    """Remove empty warnings, errors and data."""
    del tool_name, tool_call_id
    return {key: value for key, value in envelope.items() if value or key not in ("warnings", "errors", "data")}


tool_result_transforms: TransformRegistry[ToolResultTransform] = TransformRegistry(
    "tool_result", {"tool_result_compact_envelope": compact_envelope}
)


ToolTransform: TypeAlias = Callable[[list[JsonObject]], list[JsonObject] | None]
"""Changes the list in place, or returns another one."""


def strip_function_descriptions(tools: list[JsonObject]) -> None:
    """Remove descriptions to save tokens, for models that know the tools."""
    for tool in tools:
        function = tool.get("function")
        if is_object(function):
            function.pop("description", None)


tool_transforms: TransformRegistry[ToolTransform] = TransformRegistry(
    "tool", {"openai_tools_strip_function_descriptions": strip_function_descriptions}
)


ToolCallTransform: TypeAlias = Callable[[list[JsonObject]], list[JsonObject] | None]
"""Changes the list in place, or returns another one."""


def arguments_blank_to_empty_object(calls: list[JsonObject]) -> None:
    """Read blank arguments as no arguments."""
    for call in calls:
        function = call.get("function")
        if is_object(function):
            arguments = function.get("arguments")
            if isinstance(arguments, str) and not trim_blanks(arguments):
                function["arguments"] = "{}"


tool_call_transforms: TransformRegistry[ToolCallTransform] = TransformRegistry(
    "tool_call", {"assistant_tool_calls_arguments_blank_to_empty_object": arguments_blank_to_empty_object}
)


MessageTransform: TypeAlias = Callable[[list[JsonObject]], object]

SKIP_SIGNATURE = "skip_thought_signature_validator"


def content_null_if_blank(messages: list[JsonObject]) -> None:
    """Send ``null`` instead of blank content next to tool calls."""
    for message in _with_tool_calls(messages):
        content = message.get("content")
        if isinstance(content, str) and not trim_blanks(content):
            message["content"] = None


def reasoning_content_empty_if_missing(messages: list[JsonObject]) -> None:
    """Send an empty ``reasoning_content`` with tool calls, because DeepSeek requires the field."""
    for message in _with_tool_calls(messages):
        message.setdefault("reasoning_content", "")


def signature_skip_validator_if_missing(messages: list[JsonObject]) -> None:
    """Add a signature to every tool call: Gemini requires one, and accepts this instead of its own."""
    for message in _with_tool_calls(messages):
        calls = message["tool_calls"]
        assert is_list(calls)
        for call in calls:
            if is_object(call) and not call.get("signature"):
                call["signature"] = SKIP_SIGNATURE


message_transforms: TransformRegistry[MessageTransform] = TransformRegistry(
    "message",
    {
        "assistant_tool_calls_content_null_if_blank": content_null_if_blank,
        "assistant_tool_calls_reasoning_content_empty_if_missing": reasoning_content_empty_if_missing,
        "assistant_tool_calls_signature_skip_validator_if_missing": signature_skip_validator_if_missing,
    },
)


def _with_tool_calls(messages: list[JsonObject]) -> Iterator[JsonObject]:
    for message in messages:
        if message.get("role") == "assistant" and is_list(message.get("tool_calls")) and message["tool_calls"]:
            yield message
