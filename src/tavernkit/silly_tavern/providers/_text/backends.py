"""The requests SillyTavern's server makes for the backends of its text-completion type list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_list
from tavernkit.models._parameters import (
    INFERMATIC_KEYS,
    OLLAMA_OPTIONS,
    OPENAI_TEXT_KEYS,
    OPENAI_TEXT_STOPS,
    TOGETHER_KEYS,
    VLLM_KEYS,
)
from tavernkit.silly_tavern.providers._request import (
    Connection,
    ProviderRequest,
    SillyTavernConfig,
    local_address,
    override_headers,
)
from tavernkit.silly_tavern.providers._text.given import text

APP_HEADERS: Mapping[str, str] = {"http-referer": "https://sillytavern.app", "x-title": "SillyTavern"}
"""SillyTavern's headers for some hosted backends."""
BEARER = ("bearer",)
BEARER_AND_API_KEY = ("bearer", "x-api-key")

OPENROUTER_KEYS = (
    "max_tokens", "temperature", "top_k", "top_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "min_p", "top_a", "seed", "logit_bias", "model", "stream", "prompt", "stop", "provider", "include_reasoning",
)  # fmt: skip
Change = Callable[[JsonObject, SillyTavernConfig], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One type: the path below its root, the keys of the page's body it gets, and how the API key is sent.

    ``keys`` is ``None`` if the page's body is passed on unchanged, even with its own fields ``api_type`` and
    ``api_server``; ``change`` is applied before keys are selected.
    """

    path: str = "/v1/completions"
    keys: tuple[str, ...] | None = None
    key_headers: tuple[str, ...] = BEARER
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    change: Change | None = None


def _first_stops(body: JsonObject, _config: SillyTavernConfig) -> JsonObject:
    stops = body.get("stop")
    return {**body, "stop": stops[:OPENAI_TEXT_STOPS]} if is_list(stops) else body


def _openrouter(body: JsonObject, _config: SillyTavernConfig) -> JsonObject:
    changed: JsonObject = {key: value for key, value in body.items() if key != "provider"}
    if provider := provider_choice(body):
        changed["provider"] = provider
    return changed


def _ollama(body: JsonObject, config: SillyTavernConfig) -> JsonObject:
    # The page writes tfs, so the option tfs_z never arrives: SillyTavern's own mistake.
    options: JsonObject = {key: body[key] for key in OLLAMA_OPTIONS if key in body}
    if config.ollama_batch_size > 0:
        options["num_batch"] = config.ollama_batch_size
    return {
        **{key: body[key] for key in ("model", "prompt") if key in body},
        "stream": body.get("stream", False),
        "keep_alive": config.ollama_keep_alive,
        "raw": True,
        "options": options,
    }


BACKENDS: Mapping[str, Backend] = {
    "ooba": Backend(),
    "koboldcpp": Backend(),
    "huggingface": Backend(),
    "tabby": Backend(key_headers=BEARER_AND_API_KEY),
    "aphrodite": Backend(key_headers=BEARER_AND_API_KEY),
    "mancer": Backend(path="/oai/v1/completions", key_headers=BEARER_AND_API_KEY),
    "dreamgen": Backend(path="/api/openai/v1/completions"),
    "llamacpp": Backend(path="/completion"),
    "ollama": Backend(path="/api/generate", key_headers=(), change=_ollama),  # never gets a stored key
    "vllm": Backend(keys=VLLM_KEYS),
    "featherless": Backend(keys=VLLM_KEYS, headers=APP_HEADERS),
    "togetherai": Backend(keys=TOGETHER_KEYS),
    "infermaticai": Backend(keys=INFERMATIC_KEYS),
    "generic": Backend(keys=OPENAI_TEXT_KEYS, change=_first_stops),
    # Text goes to the chat path, with a prompt, as in SillyTavern.
    "openrouter": Backend(path="/v1/chat/completions", keys=OPENROUTER_KEYS, headers=APP_HEADERS, change=_openrouter),
}
"""The types of the list, by SillyTavern's names."""


def textgen_request(
    kind: str, body: Mapping[str, Json], connection: Connection, config: SillyTavernConfig
) -> ProviderRequest:
    """Make the request from the page's body."""
    backend = BACKENDS[kind]
    server = local_address(text(body.get("api_server")))
    root = server.removesuffix("/").removesuffix("/v1")
    sent: JsonObject = {**body, "api_server": server} if "api_server" in body else {**body}
    if backend.change is not None:
        sent = backend.change(sent, config)
    if backend.keys is not None:
        sent = {key: sent[key] for key in backend.keys if key in sent}
    headers = dict(backend.headers)
    if connection.key and "bearer" in backend.key_headers:
        headers["authorization"] = f"Bearer {connection.key}"
    if connection.key and "x-api-key" in backend.key_headers:
        headers["x-api-key"] = connection.key
    return ProviderRequest(
        root + backend.path, sent, override_headers(server, headers, config), secrets=(connection.key,)
    )


def provider_choice(body: Mapping[str, Json]) -> JsonObject:
    """Return OpenRouter's provider preferences; empty if the user has none."""
    choice: JsonObject = {}
    order, quantizations = body.get("provider"), body.get("quantizations")
    if is_list(order) and order:
        fallbacks = body.get("allow_fallbacks")
        choice = {"allow_fallbacks": True if fallbacks is None else fallbacks, "order": order}
    if is_list(quantizations) and quantizations:
        choice["quantizations"] = quantizations
    return choice
