"""Google's APIs, AI Studio (``makersuite``) and Vertex AI: the contents and the request, as SillyTavern makes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, JSSyntaxError, json_parse, to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.dialects._shapes import google_part
from tavernkit.silly_tavern.providers._chat.messages import (
    EXAMPLE_ASSISTANT,
    EXAMPLE_USER,
    Messages,
    PromptNames,
    copied,
    function_of,
    part_data,
    present,
    with_prefix,
)
from tavernkit.silly_tavern.providers._chat.models import Google, google_traits
from tavernkit.silly_tavern.providers._chat.page_body import Made, PageBody, without_schema_mark
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, SillyTavernConfig

AI_STUDIO = "https://generativelanguage.googleapis.com"
VERTEX_HOST = "aiplatform.googleapis.com"
DEFAULT_REGION, GLOBAL_REGION = "us-central1", "global"

HARM_CATEGORIES = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
VERTEX_HARM_CATEGORIES = (
    "IMAGE_HATE",
    "IMAGE_DANGEROUS_CONTENT",
    "IMAGE_HARASSMENT",
    "IMAGE_SEXUALLY_EXPLICIT",
    "JAILBREAK",
)
_THINKING_SHARES: Mapping[str, float] = {"low": 0.1, "medium": 0.25, "high": 0.5, "max": 1.0}
TOOL_MODES: Mapping[str, str] = {"none": "NONE", "required": "ANY", "auto": "AUTO"}
FIELDS: Mapping[str, str] = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "seed": "seed",
    "responseMimeType": "responseMimeType",
    "responseSchema": "responseSchema",
}
"""Fields of ``generationConfig``, and those of the page's body."""


def google_request(given: PageBody) -> Made:
    """Make a request to the content generation endpoint."""
    traits = google_traits(given.model)
    draws = Google.DRAWS in traits and given.is_set("request_images")
    limited = draws or Google.GEMMA in traits
    prompt = convert_google(
        given.messages,
        model=given.model,
        use_system_prompt=given.is_set("use_sysprompt") and not limited,
        names=given.names,
        config=given.config,
    )
    contents: list[Json] = [*prompt.contents]
    body: JsonObject = {
        "contents": contents,
        "safetySettings": safety_settings(given.source),
        "generationConfig": _generation_config(given, traits, draws=draws),
    }
    if prompt.system_parts:
        body["systemInstruction"] = {"parts": prompt.system_parts}
    tools = [] if limited else _tools(given, traits)
    if tools:
        body["tools"] = tools
        choice = _calling_config(given.body.get("tool_choice"))
        if choice is not None:
            body["toolConfig"] = {"functionCallingConfig": choice}
    return Made(body, _headers(given))


def google_address(given: PageBody) -> str:
    """Return the whole address, which may contain a key."""
    streams = given.is_set("stream")
    method = f"{given.model}:{'streamGenerateContent' if streams else 'generateContent'}"
    proxy = given.proxy.removesuffix("/")  # one slash, and for Google only
    if given.source == "makersuite":
        path, query = f"{proxy or AI_STUDIO}/{given.config.gemini_api_version}/models/{method}", [f"key={given.key}"]
    elif proxy:
        path, query = f"{proxy}/v1/publishers/google/models/{method}", []
    else:
        path, query = _vertex_address(given, f"publishers/google/models/{method}")
    if streams:
        query.append("alt=sse")
    return f"{path}?{'&'.join(query)}" if query else path


def _vertex_address(given: PageBody, method: str) -> tuple[str, list[str]]:
    region = given.text("vertexai_region") or DEFAULT_REGION
    host = VERTEX_HOST if region == GLOBAL_REGION else f"{region}-{VERTEX_HOST}"
    if is_service_account(given):
        project = given.connection.project
        return f"https://{host}/v1/projects/{project}/locations/{region}/{method}", []
    project = given.text("vertexai_express_project_id")
    if project:
        # With a project, the host is the one without a region, although the path names the region.
        return f"https://{VERTEX_HOST}/v1/projects/{project}/locations/{region}/{method}", [f"key={given.key}"]
    return f"https://{host}/v1/{method}", [f"key={given.key}"]


def is_service_account(given: PageBody) -> bool:
    """Return True if Vertex AI is reached with a service account instead of a key."""
    return given.source == "vertexai" and not given.proxy and given.text("vertexai_auth_mode") == "full"


def _headers(given: PageBody) -> dict[str, str]:
    if is_service_account(given):
        return {"authorization": f"Bearer {given.connection.access_token}"}
    return {"authorization": f"Bearer {given.key}"} if given.source == "vertexai" and given.proxy else {}


def safety_settings(source: str) -> list[Json]:
    """Return settings that switch off every category of harm."""
    categories = HARM_CATEGORIES + (VERTEX_HARM_CATEGORIES if source == "vertexai" else ())
    return [{"category": f"HARM_CATEGORY_{category}", "threshold": "OFF"} for category in categories]


def _generation_config(given: PageBody, traits: frozenset[Google], *, draws: bool) -> JsonObject:
    config: JsonObject = {
        "candidateCount": 1,
        **{name: given.body[key] for name, key in FIELDS.items() if key in given.body},
    }
    if given.stops:
        config["stopSequences"] = given.stops
    if given.is_set("top_k"):  # 0 is left out, unlike all other numbers
        config["topK"] = given.body["top_k"]
    if given.json_schema is not None:
        config |= {"responseMimeType": "application/json", **present(given.json_schema, responseSchema="value")}
    if Google.NO_SAMPLING in traits:
        for key in ("candidateCount", "temperature", "topP", "topK"):
            config.pop(key, None)
    if draws:
        config["responseModalities"] = ["text", "image"]
        config |= _image_config(given, traits)
    if Google.THINKS in traits:
        config["thinkingConfig"] = _thinking_config(given)
    return config


def _image_config(given: PageBody, traits: frozenset[Google]) -> JsonObject:
    # A body without these fields sends the word "undefined"; the page always sets them.
    keys = ("request_image_aspect_ratio", "request_image_resolution")
    shape, size = (to_string(given.body.get(key, UNDEFINED)) for key in keys)
    config: JsonObject = {}
    if size and Google.IMAGE_SIZE in traits:
        config["imageSize"] = size
    if shape:
        config["aspectRatio"] = shape
    return {"imageConfig": config} if shape or size else {}


def _thinking_config(given: PageBody) -> JsonObject:
    thinking: JsonObject = {"includeThoughts": given.is_set("include_reasoning")}
    budget = google_budget(given.max_tokens, given.effort, given.model)
    if isinstance(budget, int):
        thinking["thinkingBudget"] = budget
        if budget == 0 and given.source == "vertexai":  # AI Studio gets the user's choice even then
            thinking["includeThoughts"] = False
    elif budget is not None:
        thinking["thinkingLevel"] = budget
    return thinking


def google_budget(max_tokens: int, effort: str, model: str) -> int | str | None:
    """Return the thinking tokens or level of Gemini; None leaves it to the provider."""
    if re.search(r"gemini-3(\.\d+)?-pro", model):
        return {"min": "low", "low": "low", "medium": "low", "high": "high", "max": "high"}.get(effort)
    if re.search(r"gemini-3(\.\d+)?-flash", model):
        least = "low" if "gemini-3.7" in model else "minimal"
        return {"min": least, "low": "low", "medium": "medium", "high": "high", "max": "high"}.get(effort)
    if "flash-lite" in model:
        return _thinking_tokens(max_tokens, effort, least=512, most=24576, at_min=0)
    if "flash" in model:
        return _thinking_tokens(max_tokens, effort, least=0, most=24576, at_min=0)
    if "pro" in model:
        return _thinking_tokens(max_tokens, effort, least=128, most=32768, at_min=128)
    return None


def _thinking_tokens(max_tokens: int, effort: str, *, least: int, most: int, at_min: int) -> int:
    if effort == "auto":
        return -1
    if effort == "min":
        return at_min
    # An unknown effort gets the least.
    return min(max(math.floor(max_tokens * _THINKING_SHARES.get(effort, 0)), least), most)


def _tools(given: PageBody, traits: frozenset[Google]) -> list[Json]:
    functions: list[Json] = [_declaration(function_of(tool)) for tool in given.tools if tool.get("type") == "function"]
    if functions:  # then other tools and the web search are left out
        return [{"function_declarations": functions}]
    others: list[Json] = [
        {kind: tool[kind]} for tool in given.tools if isinstance(kind := tool.get("type"), str) and kind in tool
    ]
    if given.is_set("enable_web_search") and Google.NO_SEARCH not in traits:
        others.append({"google_search": {}})
    return others


def _declaration(function: JsonObject) -> JsonObject:
    declaration = without_schema_mark(function, "parameters")
    parameters = declaration.get("parameters")
    if is_object(parameters) and parameters.get("properties") == {}:
        del declaration["parameters"]
    return declaration


def _calling_config(choice: Json) -> JsonObject | None:
    if is_object(choice):
        name = function_of(choice).get("name")
        return {"mode": "ANY", "allowedFunctionNames": [name]} if name else None
    mode = TOOL_MODES.get(choice) if isinstance(choice, str) else None
    return None if mode is None else {"mode": mode}


NO_PREFILL_MODELS = ("gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.5-flash-lite")
"""Models that refuse to continue an answer, and sampling values."""
SKIP_SIGNATURE = "skip_thought_signature_validator"
_MEDIA = (("image_url", "image/png"), ("video_url", "video/mp4"), ("audio_url", "audio/mpeg"))
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
    if is_list(calls) and calls:  # the text that comes with them is not sent
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
        return arguments  # as they are, although Google wants an object


def _media_part(piece: JsonObject, kind: str, default_mime: str, model: str) -> list[Json]:
    found = part_data(piece, kind)
    if found is None:  # other addresses than data URLs are dropped
        return []
    media_type, data = found
    part = google_part("inlineData", {"mimeType": media_type or default_mime, "data": data})
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
                # Only texts are signed with the message's signature; calls have their own.
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
