"""The messages of a request: roles rewritten for the model, in the form OpenAI and Mistral want them; and tool calls.

Stored texts have marks of tool calls. What a mark names is kept outside of the chat, by its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, trim
from tavernkit._text.traced import join
from tavernkit._values import FrozenJson, Json, JsonObject, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.dialects._openai import to_openai
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Message
from tavernkit.risu_ai._cbs.blocks import unescape
from tavernkit.risu_ai._chat.prompt_message import NEW_CHAT_MEMO, PromptMessage
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._js import replace_delimited
from tavernkit.risu_ai._models import DEVELOPER_ROLE, PREFIX_FIELD, THINKING_FIELD, WireFormat, model_info
from tavernkit.risu_ai._objects import RisuCharacter, whole_number
from tavernkit.risu_ai._requests.reformat import DEFAULT_SYSTEM_CONTENT, DEFAULT_SYSTEM_ROLE, reformat

ToolCalls = Mapping[str, Mapping[str, object]]
"""Calls by the id in their mark: ``call`` is the model's, in OpenAI's shape, ``result`` is the tool's."""

TOOL_CALL = "<tool_call>"
_CLOSER = "</tool_call>"
_MARK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def without_tool_calls(text: str) -> str:
    """Cut the marks out of a text."""
    return replace_delimited(_MARK, _CLOSER, "", text)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A call that a mark names, and the tool's result."""

    id: str
    name: str
    arguments: JsonObject
    result: str


def around_tool_calls(text: str, calls: ToolCalls) -> list[str | ToolOutcome]:
    """Return the trimmed texts around the marks, and the calls that are known, in order.

    Empty texts and unknown calls are left out; a text without a mark stays as it is.

    Args:
        text: The text.
        calls: The calls that marks may name.
    """
    if TOOL_CALL not in text or _CLOSER not in text:
        return [text]
    pieces = replace_delimited(_MARK, _CLOSER, "\0", text.replace("\0", "")).split("\0")
    outcomes = [_outcome(name, calls) for name in _MARK.findall(text)]
    found: list[str | ToolOutcome] = []
    for number, piece in enumerate(pieces):
        trimmed = trim(piece)
        if trimmed:
            found.append(trimmed)
        outcome = outcomes[number] if number < len(outcomes) else None
        if outcome is not None:
            found.append(outcome)
    return found


def tool_outcomes(text: str, calls: ToolCalls) -> list[ToolOutcome]:
    """Return the calls that a text names and that are known."""
    return [each for each in around_tool_calls(text, calls) if isinstance(each, ToolOutcome)]


def _outcome(name: str, calls: ToolCalls) -> ToolOutcome | None:
    stored = calls.get(name)
    call = stored.get("call") if stored is not None else None
    function = call.get("function") if is_mapping(call) else None
    if stored is None or not is_mapping(call) or not is_mapping(function):
        return None
    try:
        arguments: object = json_parse(str(function.get("arguments") or "{}"))
    except JSSyntaxError:
        arguments = {}
    return ToolOutcome(
        id=str(call.get("id")),
        name=str(function.get("name") or ""),
        arguments=arguments if is_object(arguments) else {},
        result=str(stored.get("result") or ""),
    )


def tool_mark(call_id: str) -> str:
    """The mark that stands for a call in a text."""
    return f"{TOOL_CALL}{call_id}{_CLOSER}"


def tool_messages(text: str, calls: ToolCalls) -> list[JsonObject]:
    """The calls that a text names and their results, as messages in OpenAI's shape; unknown ones are left out."""
    found: list[JsonObject] = []
    for name in _MARK.findall(text) if TOOL_CALL in text else ():
        stored = calls.get(name)
        call = stored.get("call") if stored is not None else None
        if stored is None or not is_mapping(call):
            continue
        found.append({"role": "assistant", "content": "", "tool_calls": [thaw_object(call)]})
        found.append({"role": "tool", "content": str(stored.get("result") or ""), "tool_call_id": str(call.get("id"))})
    return found


REVERSE_PROXY = "reverse_proxy"
_EXAMPLE_PREFIX = "example_"
_MEDIA = "attachments"
_CONTENT = ("content", _MEDIA, "tool_calls", "tool_call_id")
"""A message that has none of these is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """How requests are written for one model under one user's settings.

    ``format`` is RisuAI's number for the provider's wire format (``WireFormat``).
    """

    model: str = ""
    """RisuAI's id of the model."""
    flags: frozenset[str] = field(default_factory=frozenset[str])
    """What RisuAI knows about the model, as names of its flags."""
    format: int = WireFormat.OPENAI
    system_content: str = DEFAULT_SYSTEM_CONTENT
    """How system messages are written for models that do not accept them; ``{{slot}}`` is the message."""
    system_role: str = DEFAULT_SYSTEM_ROLE
    """The role of such messages."""
    new_openai_handle: bool = True
    """True to leave out empty messages and name the speakers of examples, as RisuAI does by default."""
    ooba_mode: bool = False
    """True to join all system messages into one at the end, for text-generation servers behind a proxy."""
    preset: Preset = field(default_factory=Preset, repr=False)
    """The preset in force."""
    settings: Settings = field(default_factory=Settings, repr=False)
    """The user's settings."""
    tool_calls: ToolCalls = field(default_factory=dict[str, Mapping[str, object]], repr=False)
    """Calls of tools that marks in texts name, by id."""
    bias: tuple[tuple[str, float], ...] | None = None
    """Texts and the weights of their tokens; None to use those of the preset or the settings as they are stored."""

    @classmethod
    def of(
        cls, preset: Preset, settings: Settings, model: str | None = None, tool_calls: ToolCalls | None = None
    ) -> RequestRules:
        """The rules of a preset's model, or of another model.

        Args:
            preset: The preset in force.
            settings: The user's settings.
            model: RisuAI's id of the model; the preset's by default.
            tool_calls: The calls that marks in texts name.
        """
        model = preset.ai_model if model is None else model
        customs = settings.for_texts(preset).custom_models
        stated = preset.raw.get("customAPIFormat", settings.raw.get("customAPIFormat"))
        proxy_format = whole_number(stated, WireFormat.OPENAI)
        return cls(
            model=model,
            flags=settings.flags_of(model),
            format=proxy_format if model == REVERSE_PROXY else model_info(model, customs).format,
            system_content=preset.system_content_replacement,
            system_role=preset.system_role_replacement,
            new_openai_handle=settings.new_openai_handle,
            ooba_mode=settings.reverse_proxy_ooba_mode and model == REVERSE_PROXY,
            preset=preset,
            settings=settings,
            tool_calls=tool_calls or {},
        )

    @property
    def proxied(self) -> bool:
        """True if the user's own address is asked."""
        return self.model == REVERSE_PROXY

    def setting(self, key: str, default: FrozenJson = None) -> FrozenJson:
        """A value of RisuAI's database: the preset's own wins over what was stored last.

        Args:
            key: The key in the database.
            default: What to return if neither has it.
        """
        for source in (self.preset.raw, self.settings.raw):
            if source.get(key) is not None:
                return source[key]
        return default


def unescaped(messages: list[PromptMessage]) -> list[PromptMessage]:
    """Turn escaped characters of these messages back, and return them; done once, before request triggers."""
    for message in messages:
        message.content = unescape(message.content)
    return messages


def rewritten_messages(
    messages: Sequence[PromptMessage], rules: RequestRules, *, warn: Warn = log_warning, strict: bool = False
) -> list[PromptMessage]:
    """Rewrite the roles for the model, as RisuAI does for every format."""
    return reformat(
        messages,
        rules.flags,
        system_content=rules.system_content,
        system_role=rules.system_role,
        warn=warn,
        strict=strict,
    )


def request_messages(
    messages: Sequence[PromptMessage], rules: RequestRules, *, warn: Warn = log_warning, strict: bool = False
) -> list[JsonObject]:
    """Write the messages of an OpenAI-style request."""
    rewritten = rewritten_messages(messages, rules, warn=warn, strict=strict)
    body = [each for message in rewritten for each in _body_messages(message, rules)]
    if rewritten and rewritten[-1].role == "assistant":
        if PREFIX_FIELD in rules.flags:
            body[-1]["prefix"] = True
        if THINKING_FIELD in rules.flags and rewritten[-1].thoughts:
            body[-1]["reasoning_content"] = "\n".join(rewritten[-1].thoughts)
    if rules.ooba_mode:
        body = _system_last(body)
    if rules.new_openai_handle:
        body = [message for message in body if any(map(message.get, _CONTENT))]
    if DEVELOPER_ROLE in rules.flags:
        for message in body:
            if message["role"] == "system":
                message["role"] = "developer"
    written = _mistral(body) if rules.format == WireFormat.MISTRAL else body
    return [_with_media(message, rules, warn) for message in written]


def _body_messages(message: PromptMessage, rules: RequestRules) -> list[JsonObject]:
    return [*tool_messages(message.content, rules.tool_calls), _body_message(message, rules)]


def _body_message(message: PromptMessage, rules: RequestRules) -> JsonObject:
    content = message.content
    if rules.new_openai_handle and (message.memo or "").startswith(NEW_CHAT_MEMO):
        content = ""  # only in OpenAI's and Mistral's formats: RisuAI sends the line to all other providers
    role = message.role
    if TOOL_CALL in content:
        # RisuAI sends a text that a tool was called from as the assistant's, no matter who wrote it.
        content, role = without_tool_calls(content), "assistant"
    written: JsonObject = {"role": role, "content": content}
    if message.multimodals:
        written[_MEDIA] = [thaw(part) for part in message.multimodals]
    if rules.new_openai_handle and message.name is not None and message.name.startswith(_EXAMPLE_PREFIX):
        written["name"] = message.name
    return written


def _with_media(message: JsonObject, rules: RequestRules, warn: Warn) -> JsonObject:
    """Write the content in parts if there is more than text: pictures first, each with the user's vision quality."""
    media = message.pop(_MEDIA, None)
    if not isinstance(media, list):
        return message
    quality = rules.setting("gptVisionQuality", "low")
    detailed = [{"detail": quality, **part} if _is_picture(part) else part for part in media if is_object(part)]
    said = Message(role=str(message["role"]), content=str(message["content"]), attachments=detailed)
    (written,) = to_openai([said], attachments=True, warn=warn)
    content = written["content"]
    if isinstance(content, list):
        text = [part for part in content if is_object(part) and part.get("type") == "text"]
        parts: list[Json] = [*(part for part in content if part not in text), *text]
        return {**message, "content": parts}
    return {**message, "content": content}


def _is_picture(part: object) -> bool:
    return is_mapping(part) and part.get("type") == "image"


def _system_last(body: Sequence[JsonObject]) -> list[JsonObject]:
    """All that the system says in one message at the end (a blanked start line leaves an empty line in it)."""
    system = join("\n", (str(message["content"]) for message in body if message["role"] == "system"))
    others = [message for message in body if message["role"] != "system"]
    return [*others, {"role": "system", "content": system}]


def _mistral(body: Sequence[JsonObject]) -> list[JsonObject]:
    """No system message but the first, no role twice in a row."""
    found: list[JsonObject] = []
    for message in body:
        role, content = message["role"], str(message["content"])
        if not found:
            if role not in {"user", "system"}:
                role, content = "system", f"{role}:" + content  # without a space, here and below
            found.append({**message, "role": role, "content": content})
            continue
        last = found[-1]
        if role == "system" and last["role"] != "system":
            role, content = "user", "System:" + content
        if last["role"] == role:
            last["content"] = str(last["content"]) + "\n" + content
        else:
            found.append({**message, "role": "user" if role == "function" else role, "content": content})
    return found


_ESCAPES = {"n": "\n", "r": "\r", "\\": "\\"}
_ESCAPED = re.compile(r"\\([nr\\])")


def with_bias(rules: RequestRules, character: RisuCharacter | None, expand: Callable[[str], str]) -> RequestRules:
    """Return the rules with all weights for a chat: those of the settings, then those of the character.

    Args:
        rules: The rules of the model.
        character: The character of the chat.
        expand: Expands macros in the texts; escaped line ends and backslashes are unescaped after that.
    """
    rows = [*_rows(rules.setting("bias")), *_rows(None if character is None else character.raw.get("bias"))]
    if not rows:
        return rules
    return replace(rules, bias=tuple((_unescape(expand(text)), weight) for text, weight in rows))


def _rows(value: object) -> list[tuple[str, float]]:
    rows = value if is_sequence(value) else ()
    return [
        (row[0], row[1])
        for row in rows
        if is_sequence(row) and len(row) > 1 and isinstance(row[0], str) and isinstance(row[1], (int, float))
    ]


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text)
