"""KoboldAI's own protocol: the page's body and the request."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern.providers._config import SillyTavernConfig
from tavernkit.silly_tavern.providers._request import ProviderRequest, local_address, override_headers
from tavernkit.silly_tavern.providers._text.given import TextInput, copied_fields, number, text, with_defaults

GUI_PRESET = "gui"
"""The preset that leaves all samplers to the server."""

SAMPLERS: Mapping[str, str] = {
    "sampler_order": "sampler_order",
    "rep_pen": "rep_pen",
    "rep_pen_range": "rep_pen_range",
    "rep_pen_slope": "rep_pen_slope",
    "temperature": "temp",
    "tfs": "tfs",
    "top_a": "top_a",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical": "typical",
}
FEATURE_SAMPLERS: Mapping[str, tuple[str, ...]] = {
    "can_use_min_p": ("min_p",),
    "can_use_mirostat": ("mirostat", "mirostat_tau", "mirostat_eta"),
    "can_use_default_badwordsids": ("use_default_badwordsids",),
}
"""Samplers that only servers with a feature get."""
ALL_FEATURES = (*FEATURE_SAMPLERS, "can_use_streaming", "can_use_stop_sequence", "can_use_grammar")
"""Features of current servers: files do not contain what SillyTavern detected."""

SENT = (
    "rep_pen", "rep_pen_range", "rep_pen_slope", "temperature", "tfs", "top_a", "top_k", "top_p", "min_p", "typical",
    "sampler_order", "use_default_badwordsids", "mirostat", "mirostat_eta", "mirostat_tau", "grammar", "sampler_seed",
)  # fmt: skip
"""Fields that the server passes on unless the preset is ``GUI_PRESET``."""


def kobold_body(settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the page's body."""
    chosen = with_defaults("kobold", settings)
    body: JsonObject = {
        "prompt": given.prompt,
        "max_length": given.max_tokens,
        "max_context_length": given.max_context,
        "api_server": given.server,
    }
    if chosen.get("preset_settings") == GUI_PRESET:
        return body | {"gui_settings": True}
    can_stream = "can_use_streaming" in given.features
    body |= {
        "gui_settings": False,
        "use_world_info": False,
        "singleline": False,
        "streaming": bool(chosen.get("streaming_kobold")) and can_stream and given.generation_type != "quiet",
        "can_abort": can_stream,
        **copied_fields(chosen, SAMPLERS),
    }
    for feature, names in FEATURE_SAMPLERS.items():
        if feature in given.features:
            body |= copied_fields(chosen, {name: name for name in names})
    if "can_use_stop_sequence" in given.features:
        body["stop_sequence"] = [*given.stop_strings]
    if "can_use_grammar" in given.features:
        body["grammar"] = given.expand(text(chosen.get("grammar")))
        if given.generation_type == "continue":
            body["grammar_retain_state"] = True
    if number(chosen.get("seed"), -1) >= 0:
        body["sampler_seed"] = chosen["seed"]
    return body


def kobold_request(body: Mapping[str, Json], config: SillyTavernConfig) -> ProviderRequest:
    """Make the request from the page's body; Kobold has no keys."""
    root = local_address(text(body.get("api_server")))
    path = "/extra/generate/stream" if body.get("streaming") else "/v1/generate"
    sent: JsonObject = {
        "use_story": False,
        "use_memory": False,
        "use_authors_note": False,
        "use_world_info": False,
        **_present(body, ("prompt", "max_context_length", "max_length")),
    }
    if not body.get("gui_settings"):
        sent |= _present(body, SENT)
        sent["singleline"] = bool(body.get("singleline"))
        stops = body.get("stop_sequence")
        if stops or stops == []:
            sent["stop_sequence"] = stops
    return ProviderRequest(root + path, sent, override_headers(root, {}, config))


def _present(body: Mapping[str, Json], keys: tuple[str, ...]) -> JsonObject:
    return {key: body[key] for key in keys if key in body}
