"""Requests to Google's APIs: AI Studio (``makersuite``) and Vertex AI."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.js_values import UNDEFINED, to_string
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.silly_tavern.providers._chat.models import Google, google_traits
from tavernkit.silly_tavern.providers._chat.page_body import Made, PageBody
from tavernkit.silly_tavern.providers._chat.schemas import without_schema_mark
from tavernkit.silly_tavern.providers._converters.google import convert_google
from tavernkit.silly_tavern.providers._converters.messages import function_of
from tavernkit.silly_tavern.providers._converters.reasoning import google_budget

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
    """Make a request to the content generation endpoint (provider_requests §4.2)."""
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
    proxy = given.proxy.removesuffix("/")
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
    if given.is_set("top_k"):
        config["topK"] = given.body["top_k"]
    if given.json_schema is not None:
        config |= {"responseMimeType": "application/json", "responseSchema": given.json_schema.get("value")}
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
    budget = google_budget(int(given.number("max_tokens")), given.effort, given.model)
    if isinstance(budget, int):
        thinking["thinkingBudget"] = budget
        if budget == 0 and given.source == "vertexai":
            thinking["includeThoughts"] = False
    elif budget is not None:
        thinking["thinkingLevel"] = budget
    return thinking


def _tools(given: PageBody, traits: frozenset[Google]) -> list[Json]:
    functions: list[Json] = [_declaration(function_of(tool)) for tool in given.tools if tool.get("type") == "function"]
    if functions:
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
