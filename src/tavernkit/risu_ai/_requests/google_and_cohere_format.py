"""Requests in Google's format, for its own interface and for Vertex AI, and in Cohere's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_mapping, is_object
from tavernkit.dialects._shapes import google_part, split_data_url
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import OLD_COHERE_MODELS, WireFormat, parameters_of
from tavernkit.risu_ai._requests.messages import RequestRules, ToolCalls, ToolOutcome, around_tool_calls
from tavernkit.risu_ai._requests.parameters import parameter_values, wanted_schema

CATEGORIES = ("SEXUALLY_EXPLICIT", "HATE_SPEECH", "HARASSMENT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
_NAMES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_LEVELS: Mapping[str, Sequence[tuple[int, str]]] = {
    "gemini-3-flash-preview": ((16384, "HIGH"), (4096, "MEDIUM")),
    "": ((8192, "HIGH"),),
}
"""From how many thinking tokens on a model of the third generation is asked for a level; the empty name: all others."""

_THIRD = "gemini-3-"
_THINKING = "thinking_tokens"


def google_body(
    rules: RequestRules, wire_name: str, messages: Sequence[PromptMessage], *, max_tokens: int, mode: str
) -> JsonObject:
    """Write a request for content."""
    instruction, rest = None, messages
    if messages and messages[0].role == "system":
        instruction, rest = messages[0].content, messages[1:]
    body: JsonObject = {
        "contents": [*_contents(rest, rules.tool_calls)],
        "generation_config": _config(rules, wire_name, max_tokens, mode),
        "safetySettings": _safety(rules),
    }
    if instruction is not None:
        body["systemInstruction"] = {"parts": [google_part("text", instruction)]}
    return body


def google_url(rules: RequestRules, wire_name: str, *, key: str, project: str, stream: bool) -> str:
    """The address, which names the model and may hold the key."""
    action = "streamGenerateContent" if stream else "generateContent"
    if rules.format == WireFormat.VERTEX:
        stated = rules.setting("vertexRegion", "global")
        preview = wire_name.startswith(_THIRD) and wire_name.endswith("-preview")
        region = "global" if preview or not isinstance(stated, str) else stated
        host = "aiplatform.googleapis.com" if region == "global" else f"{region}-aiplatform.googleapis.com"
        return f"https://{host}/v1/projects/{project}/locations/{region}/publishers/google/models/{wire_name}:{action}"
    base = "https://generativelanguage.googleapis.com/v1beta"
    proxy = rules.setting("forceReplaceUrl")
    if rules.proxied and isinstance(proxy, str):
        base = proxy
    query = "alt=sse&" if stream else ""
    return f"{base}/models/{wire_name}:{action}?{query}key={key}"


def _contents(messages: Sequence[PromptMessage], calls: ToolCalls) -> list[JsonObject]:
    found: list[JsonObject] = []
    for message in messages:
        if message.role == "system":
            _add_system(found, message.content)
            continue
        role = "user" if message.role == "user" else "model"
        media = [part for each in message.multimodals if (part := _media(each)) is not None]
        pieces = around_tool_calls(message.content, calls)
        for number, piece in enumerate(pieces):
            if isinstance(piece, ToolOutcome):
                found += _called(piece)
                continue
            parts: list[Json] = [google_part("text", piece), *(media if number == len(pieces) - 1 else ())]
            found.append({"role": role, "parts": parts})
    return _joined(found)


def _called(outcome: ToolOutcome) -> list[JsonObject]:
    """A tool call and its result, which is sent as the user's message."""
    call = google_part("functionCall", {"name": outcome.name, "args": outcome.arguments})
    response = google_part("functionResponse", {"name": outcome.name, "response": {"result": outcome.result}})
    return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]


def _add_system(found: list[JsonObject], content: str) -> None:
    if found and found[-1]["role"] == "user" and "text" in _parts(found[-1])[0]:
        first = _parts(found[-1])[0]
        first["text"] = join("", (str(first.get("text", "")), "\nsystem:", content))  # without a space, as in RisuAI
    else:
        found.append({"role": "user", "parts": [google_part("text", "system:" + content)]})


def _joined(messages: list[JsonObject]) -> list[JsonObject]:
    """Join neighbours of one role with a blank line."""
    joined: list[JsonObject] = []
    for message in messages:
        if not joined or joined[-1]["role"] != message["role"]:
            joined.append(message)
            continue
        first, *others = _parts(message)
        last = _parts(joined[-1])
        if "text" not in first or "text" not in last[0]:  # calls of tools stay parts of their own
            joined[-1]["parts"] = [*last, first, *others]
            continue
        last[0]["text"] = join("\n\n", (str(last[0].get("text", "")), str(first.get("text", ""))))
        joined[-1]["parts"] = [*last, *others]
    return joined


def _parts(message: JsonObject) -> list[JsonObject]:
    parts = message["parts"]
    return [part for part in parts if is_object(part)] if isinstance(parts, list) else []


def _media(part: object) -> JsonObject | None:
    if not is_mapping(part):
        return None
    kind, data = split_data_url(part.get("url")) or (part.get("media_type"), part.get("data"))
    if not isinstance(data, str):
        return None
    return google_part("inlineData", {"mimeType": str(kind or "image/png"), "data": data})


def _config(rules: RequestRules, wire_name: str, max_tokens: int, mode: str) -> JsonObject:
    listed = parameters_of(rules.model)
    values = parameter_values(rules, listed, mode=mode)
    config: JsonObject = {"maxOutputTokens": max_tokens}
    for name, written in _NAMES.items():
        if name in values and not (name == "top_k" and values[name] == 0):  # RisuAI leaves out 0 for this one only
            config[written] = values[name]
    if "geminiThinking" in rules.flags:
        config["thinkingConfig"] = {**_thinking(wire_name, values.get(_THINKING)), "includeThoughts": True}
    if "hasAudioOutput" in rules.flags:
        config["responseModalities"] = ["TEXT", "AUDIO"]
    elif "hasImageOutput" in rules.flags:
        config["responseModalities"] = ["TEXT", "IMAGE"]
    if rules.setting("gptVisionQuality") == "high":
        config["mediaResolution"] = "MEDIA_RESOLUTION_MEDIUM"
    schema = wanted_schema(rules)
    if schema is not None:
        config["response_mime_type"] = "application/json"
        config["response_schema"] = {
            key: value for key, value in schema.items() if key not in ("$schema", "additionalProperties")
        }
    return config


def _thinking(wire_name: str, tokens: Json) -> JsonObject:
    if not wire_name.startswith(_THIRD):
        return {} if tokens is None else {"thinkingBudget": tokens}
    levels = _LEVELS.get(wire_name, _LEVELS[""])
    if not isinstance(tokens, (int, float)):
        return {"thinkingLevel": levels[0][1]}
    return {"thinkingLevel": next((level for least, level in levels if tokens >= least), "LOW")}


def _safety(rules: RequestRules) -> list[Json]:
    threshold = "OFF" if "geminiBlockOff" in rules.flags else "BLOCK_NONE"
    categories = CATEGORIES[:-1] if "noCivilIntegrity" in rules.flags else CATEGORIES
    return [{"category": f"HARM_CATEGORY_{name}", "threshold": threshold} for name in categories]


_ROLES: Mapping[str, str] = {"assistant": "CHATBOT", "system": "SYSTEM", "user": "USER"}
_COHERE_NAMES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_k": "k",
    "top_p": "p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def cohere_body(rules: RequestRules, messages: Sequence[PromptMessage], *, mode: str) -> JsonObject:
    """Write a chat request: the last message apart from the others, the first system text as the preamble.

    RisuAI sends Cohere no limit for the reply.
    """
    rest = list(messages)
    message = ""
    if rest and rest[-1].role == "user":
        message = rest.pop().content
    else:
        while rest:
            last = rest.pop()
            # RisuAI begins every text with a line end, the user's too.
            prefix = "" if last.role == "user" else f"{_role(last)}: "
            message = join("", (prefix, "\n", last.content, message))
            if last.role == "user":
                break
    preamble: str | None = None
    if rest and rest[0].role == "system":
        preamble = rest.pop(0).content
        if not rest:  # RisuAI overwrites the message that it has collected
            message, preamble = "system: " + preamble, None
    body: JsonObject = {
        "message": message,
        "chat_history": [{"role": _role(each), "message": each.content} for each in rest if each.content],
    }
    values = parameter_values(rules, _COHERE_NAMES, mode=mode)
    body |= {_COHERE_NAMES[name]: value for name, value in values.items()}
    if rules.model not in OLD_COHERE_MODELS:
        body["safety_mode"] = "NONE"
    if preamble is not None:
        body["preamble"] = preamble
    return body


def _role(message: PromptMessage) -> str:
    return _ROLES.get(message.role or "", "USER")
