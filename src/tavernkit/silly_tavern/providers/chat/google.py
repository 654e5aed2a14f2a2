"""Requests to Google's API."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tavernkit.silly_tavern.providers.chat.request import PageRequest, ProviderRequest, without_schema_mark
from tavernkit.silly_tavern.providers.converters.google import NO_PREFILL_MODELS, convert_google
from tavernkit.silly_tavern.providers.converters.messages import function_of
from tavernkit.silly_tavern.providers.converters.reasoning import google_budget
from tavernkit.values import Json, JsonObject, is_object

HARM_CATEGORIES = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
_TOOL_MODES: Mapping[str, str] = {"none": "NONE", "required": "ANY", "auto": "AUTO"}
_THINKS = re.compile(r"gemini-(2\.5|3(\.\d+)?)-(flash|pro)")


def google_request(given: PageRequest) -> ProviderRequest:
    """Make a request of the content generation endpoint."""
    model = given.model
    limited = "gemma-3" in model or _draws(given)
    use_system_prompt = given.flag("use_sysprompt") and not limited
    prompt = convert_google(
        given.messages, model=model, use_system_prompt=use_system_prompt, names=given.names, config=given.config
    )
    body: JsonObject = {
        "contents": [*prompt.contents],
        "safetySettings": [
            {"category": f"HARM_CATEGORY_{category}", "threshold": "OFF"} for category in HARM_CATEGORIES
        ],
        "generationConfig": _generation_config(given),
    }
    if use_system_prompt and prompt.system_parts:
        body["systemInstruction"] = {"parts": prompt.system_parts}
    if given.tools and not limited:
        body["tools"] = [{"function_declarations": [_declaration(function_of(tool)) for tool in given.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _calling_config(given.body.get("tool_choice"))}
    method = "streamGenerateContent?alt=sse" if given.flag("stream") else "generateContent"
    return ProviderRequest(f"/{given.config.gemini_api_version}/models/{model}:{method}", body)


def _draws(given: PageRequest) -> bool:
    return given.flag("request_images") and "-image" in given.model


def _generation_config(given: PageRequest) -> JsonObject:
    config: JsonObject = {}
    if given.body.get("stop"):
        config["stopSequences"] = given.body["stop"]
    config["candidateCount"] = 1
    for ours, theirs in (
        ("max_tokens", "maxOutputTokens"),
        ("temperature", "temperature"),
        ("top_p", "topP"),
        ("top_k", "topK"),
        ("seed", "seed"),
    ):
        if given.body.get(ours) is not None:
            config[theirs] = given.body[ours]
    if any(name in given.model for name in NO_PREFILL_MODELS):
        for key in ("candidateCount", "temperature", "topP", "topK"):
            config.pop(key, None)
    if _draws(given):
        config["responseModalities"] = ["TEXT", "IMAGE"]
    schema = given.json_schema
    if schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseSchema"] = schema.get("value")
    if _THINKS.search(given.model):
        config["thinkingConfig"] = _thinking_config(given)
    return config


def _thinking_config(given: PageRequest) -> JsonObject:
    thinking: JsonObject = {"includeThoughts": given.flag("include_reasoning")}
    effort = given.text("reasoning_effort") or "auto"
    budget = google_budget(given.number("max_tokens"), effort, given.model)
    if isinstance(budget, int):
        thinking["thinkingBudget"] = budget
    elif budget is not None:
        thinking["thinkingLevel"] = budget
    return thinking


def _declaration(function: JsonObject) -> Json:
    declaration = without_schema_mark(function, "parameters")
    parameters = declaration.get("parameters")
    if is_object(parameters) and not parameters.get("properties"):
        del declaration["parameters"]
    return declaration


def _calling_config(choice: Json) -> JsonObject:
    if is_object(choice):
        return {"mode": "ANY", "allowedFunctionNames": [function_of(choice).get("name")]}
    return {"mode": _TOOL_MODES.get(str(choice), "AUTO")}
