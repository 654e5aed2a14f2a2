"""Requests to Google's API."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tavernkit.silly_tavern.converters.google import convert_google
from tavernkit.silly_tavern.converters.reasoning import google_budget
from tavernkit.silly_tavern.converters.requests.request import ProviderRequest, RequestInput, function_of, without
from tavernkit.values import Json, JsonObject, is_object

API_VERSION = "v1beta"
HARM_CATEGORIES = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
NO_SAMPLING_MODELS = ("gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.5-flash-lite")
_TOOL_MODES: Mapping[str, str] = {"none": "NONE", "required": "ANY", "auto": "AUTO"}
_THINKS = re.compile(r"gemini-(2\.5|3(\.\d+)?)-(flash|pro)")


def google_request(given: RequestInput) -> ProviderRequest:
    """Make a request of the content generation endpoint."""
    model = given.model
    use_system_prompt = given.flag("use_sysprompt") and "gemma-3" not in model
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
    if given.tools and "gemma-3" not in model:
        body["tools"] = [{"function_declarations": [_declaration(function_of(tool)) for tool in given.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _calling_config(given.body.get("tool_choice"))}
    method = "streamGenerateContent" if given.flag("stream") else "generateContent"
    return ProviderRequest(f"/{API_VERSION}/models/{model}:{method}", body)


def _generation_config(given: RequestInput) -> JsonObject:
    config: JsonObject = {}
    if given.body.get("stop"):
        config["stopSequences"] = given.body["stop"]
    config["candidateCount"] = 1
    for ours, theirs in (
        ("max_tokens", "maxOutputTokens"),
        ("temperature", "temperature"),
        ("top_p", "topP"),
        ("top_k", "topK"),
    ):
        if given.body.get(ours) is not None:
            config[theirs] = given.body[ours]
    if any(name in given.model for name in NO_SAMPLING_MODELS):
        for key in ("candidateCount", "temperature", "topP", "topK"):
            config.pop(key, None)
    schema = given.json_schema
    if schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseSchema"] = schema.get("value")
    if _THINKS.search(given.model):
        config["thinkingConfig"] = _thinking_config(given)
    return config


def _thinking_config(given: RequestInput) -> JsonObject:
    thinking: JsonObject = {"includeThoughts": given.flag("include_reasoning")}
    effort = given.text("reasoning_effort") or "auto"
    budget = google_budget(given.number("max_tokens"), effort, given.model)
    if isinstance(budget, int):
        thinking["thinkingBudget"] = budget
    elif budget is not None:
        thinking["thinkingLevel"] = budget
    return thinking


def _declaration(function: JsonObject) -> Json:
    parameters = without(function.get("parameters"), "$schema")
    declaration: JsonObject = {**function, "parameters": parameters}
    if is_object(parameters) and not parameters.get("properties"):
        del declaration["parameters"]
    return declaration


def _calling_config(choice: Json) -> JsonObject:
    if is_object(choice):
        return {"mode": "ANY", "allowedFunctionNames": [function_of(choice).get("name")]}
    return {"mode": _TOOL_MODES.get(str(choice), "AUTO")}
