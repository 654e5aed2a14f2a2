"""Contents for Google's API, as SillyTavern makes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.dialects._shapes import google_part
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import Messages, copied, function_of, part_url, present
from tavernkit.silly_tavern.providers._converters.names import EXAMPLE_ASSISTANT, EXAMPLE_USER, PromptNames, with_prefix

NO_PREFILL_MODELS = ("gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.5-flash-lite")
"""Models that refuse to continue an answer, and sampling values."""
SKIP_SIGNATURE = "skip_thought_signature_validator"
_MEDIA = (("image_url", "image/png"), ("video_url", "video/mp4"), ("audio_url", "audio/mpeg"))
_DATA_URL = re.compile(r"^data:([^;,]*+)[^,]*+,(.*)$", re.DOTALL)
_RICH_KEYS = ("inlineData", "functionCall", "functionResponse", "thoughtSignature", "mediaResolution")


@dataclass(frozen=True, slots=True)
class GooglePrompt:
    """Turns, and the parts of the system instruction."""

    contents: Messages
    system_parts: list[Json]


def convert_google(
    messages: Sequence[JsonObject],
    *,
    model: str,
    use_system_prompt: bool,
    names: PromptNames,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> GooglePrompt:
    """Separate the leading system messages (never the last message) and turn the rest into turns of parts."""
    turns = copied(messages)
    system_parts: list[Json] = []
    if use_system_prompt:
        while len(turns) > 1 and turns[0].get("role") == "system":
            first = turns.pop(0)
            names.name_example(first)
            system_parts.append(present(first, text="content"))
    signer = _Signer(model, config)
    functions: dict[str, Json] = {}
    contents: Messages = []
    for index, turn in enumerate(turns):
        role = _role(turn, model, last=index == len(turns) - 1)
        parts: list[Json] = []
        for piece in _pieces(turn):
            parts.extend(_parts(_named(piece, turn, names), model, functions))
        signer.sign(parts, turn, role)
        _append(contents, role, parts)
    return GooglePrompt(contents, system_parts)


def _role(turn: JsonObject, model: str, *, last: bool) -> str:
    role = turn.get("role")
    if role in ("system", "tool"):
        return "user"
    if role == "assistant":
        return "user" if last and any(name in model for name in NO_PREFILL_MODELS) else "model"
    return to_string(role)


def _pieces(turn: JsonObject) -> list[JsonObject]:
    content = turn.get("content")
    if is_list(content):
        return [part for part in content if is_object(part)]
    calls = turn.get("tool_calls")
    if is_list(calls) and calls:
        return [{"type": "tool_calls", "tool_calls": calls}]
    call_id = turn.get("tool_call_id")
    text = "" if content is None else to_string(content)
    if isinstance(call_id, str) and call_id:
        return [{"type": "tool_call_id", "tool_call_id": call_id, "content": text}]
    return [{"type": "text", "text": text}]


def _named(piece: JsonObject, turn: JsonObject, names: PromptNames) -> JsonObject:
    name = turn.get("name")
    if not name or piece.get("type") != "text":
        return piece
    text = to_string(piece.get("text"))
    if name == EXAMPLE_USER:
        text = names.as_user(text)
    elif name == EXAMPLE_ASSISTANT:
        text = names.as_character(text)
    else:
        text = with_prefix(text, to_string(name))
    return {**piece, "text": text}


def _parts(piece: JsonObject, model: str, functions: dict[str, Json]) -> list[Json]:
    kind = piece.get("type")
    if kind == "text":
        return [google_part("text", piece.get("text"))]
    if kind == "tool_call_id":
        name = functions.get(to_string(piece.get("tool_call_id")), "unknown")
        response: JsonObject = {"name": name, "content": piece.get("content")}
        return [google_part("functionResponse", {"name": name, "response": response})]
    if kind == "tool_calls":
        calls = piece.get("tool_calls")
        return [_function_call(call, functions) for call in (calls if is_list(calls) else []) if is_object(call)]
    for name, default_mime in _MEDIA:
        if kind == name:
            return _media_part(piece, name, default_mime, model)
    return []


def _function_call(call: JsonObject, functions: dict[str, Json]) -> JsonObject:
    function = function_of(call)
    functions[to_string(call.get("id"))] = function.get("name")
    arguments = function.get("arguments")
    called = present(function, name="name", args="arguments")
    if isinstance(arguments, str):
        called["args"] = _parsed(arguments)
    part = google_part("functionCall", called)
    if call.get("signature"):
        part["thoughtSignature"] = call["signature"]
    return part


def _parsed(arguments: str) -> Json:
    try:
        return json_parse(arguments)
    except JSSyntaxError:
        return arguments


def _media_part(piece: JsonObject, kind: str, default_mime: str, model: str) -> list[Json]:
    found = _DATA_URL.match(part_url(piece, kind))
    if not found:
        return []
    part = google_part("inlineData", {"mimeType": found[1] or default_mime, "data": found[2]})
    media = piece.get(kind)
    detail = media.get("detail") if is_object(media) else None
    if "gemini-3" in model and detail in ("low", "high"):
        part["mediaResolution"] = {"level": f"media_resolution_{detail}"}
    return [part]


class _Signer:
    """Adds the thought signatures that newer models require."""

    def __init__(self, model: str, config: SillyTavernConfig) -> None:
        self._third = "gemini-3" in model
        self._applies = self._third or "gemini-2.5" in model
        self._image_model = "-image" in model
        self._enabled = config.gemini_thought_signatures

    def sign(self, parts: list[Json], turn: JsonObject, role: str) -> None:
        if not self._applies:
            return
        signature = turn.get("signature")
        for part in parts:
            if not is_object(part):
                continue
            if self._enabled and signature:
                if "text" in part:
                    part["thoughtSignature"] = signature
            elif self._third:
                self._skip(part, role)

    def _skip(self, part: JsonObject, role: str) -> None:
        unsigned_call = "functionCall" in part and "thoughtSignature" not in part
        drawn = self._image_model and role == "model" and ("text" in part or "inlineData" in part)
        if unsigned_call or drawn:
            part["thoughtSignature"] = SKIP_SIGNATURE


def _append(contents: Messages, role: str, parts: list[Json]) -> None:
    before = contents[-1] if contents else None
    if before is None or before.get("role") != role:
        contents.append({"role": role, "parts": parts})
        return
    old = before.get("parts")
    kept: list[Json] = old if is_list(old) else []
    for part in parts:
        if not is_object(part):
            continue
        text = part.get("text")
        if text:
            first = next((each for each in kept if is_object(each) and isinstance(each.get("text"), str)), None)
            if is_object(first):
                first["text"] = to_string(first["text"]) + "\n\n" + to_string(text)
            else:
                kept.append(part)
        # A signed text is both merged and kept as a separate part, as in SillyTavern.
        if any(key in part for key in _RICH_KEYS):
            kept.append(part)
    before["parts"] = kept
