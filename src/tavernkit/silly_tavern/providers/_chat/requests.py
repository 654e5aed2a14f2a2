"""The chat-completion sources, with addresses and keys, and the request to any of them."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import field
from random import Random
from urllib.parse import urlsplit

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import encode_uri_component, to_string, trim, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern.providers._chat import own
from tavernkit.silly_tavern.providers._chat.claude import claude_request
from tavernkit.silly_tavern.providers._chat.google import google_address, google_request, is_service_account
from tavernkit.silly_tavern.providers._chat.message_forms import post_process
from tavernkit.silly_tavern.providers._chat.messages import PromptNames, copied
from tavernkit.silly_tavern.providers._chat.page_body import Made, PageBody, flatten_schema
from tavernkit.silly_tavern.providers._chat.shared import shared_request
from tavernkit.silly_tavern.providers._request import (
    DEFAULT_CONFIG,
    Connection,
    ProviderRequest,
    RequestRefusedError,
    SillyTavernConfig,
    json_headers,
)
from tavernkit.silly_tavern.providers._text.backends import APP_HEADERS

CHAT_PATH = "/chat/completions"
AFFINITY_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source.

    ``root`` is its address, or makes it from the body; ``address`` makes the whole address and replaces both. ``proxy``
    is True if a reverse proxy is supported, ``open_proxy`` if that needs no password.
    """

    make: Callable[[PageBody], Made] = shared_request
    root: str | Callable[[PageBody], str] = ""
    path: str = CHAT_PATH
    address: Callable[[PageBody], str] | None = None
    key_header: str = "authorization"
    headers: Mapping[str, str] | Callable[[PageBody], Mapping[str, str]] = field(default_factory=dict[str, str])
    proxy: bool = False
    open_proxy: bool = False
    needs_key: bool = True


def _by_endpoint(key: str, usual: str, **others: str) -> Callable[[PageBody], str]:
    """Return the root that a field of the body selects."""
    return lambda given: others.get(given.text(key), usual)


def _azure(given: PageBody) -> str:
    values = {name: trim(given.text(name)) for name in ("azure_base_url", "azure_deployment_name", "azure_api_version")}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise _incomplete(f"azure_openai: {', '.join(missing)} must not be empty")
    try:
        base = urlsplit(values["azure_base_url"])
    except ValueError:
        base = urlsplit("")
    if not base.scheme or not base.hostname:
        raise _incomplete("azure_openai: azure_base_url must be a whole address, such as https://NAME.openai.azure.com")
    # The address's own path and query are dropped.
    return (
        f"{base.scheme}://{base.netloc.rpartition('@')[2]}/openai/deployments/{values['azure_deployment_name']}"
        f"{CHAT_PATH}?api-version={values['azure_api_version']}"
    )


def _incomplete(message: str) -> RequestRefusedError:
    return RequestRefusedError(message, code="INCOMPLETE_ADDRESS", answer={"error": {"message": message}})


def _workers_ai(given: PageBody) -> str:
    account = trim(to_string(given.body.get("workers_ai_account_id") or ""))
    if not account:
        raise RequestRefusedError("workers_ai: workers_ai_account_id must not be empty", code="INCOMPLETE_ADDRESS")
    return f"https://api.cloudflare.com/client/v4/accounts/{encode_uri_component(account)}/ai/v1"


def _session_affinity(given: PageBody) -> Mapping[str, str]:
    if not given.is_set("chat_id"):
        return {}
    chat = to_string(given.body["chat_id"]).encode("utf-8", "surrogatepass")
    digest = hmac.new(given.connection.secret.encode("utf-8"), chat, hashlib.sha256).hexdigest()
    return {"x-session-affinity": digest[:AFFINITY_LENGTH]}


SOURCES: Mapping[str, Source] = {
    "openai": Source(root="https://api.openai.com/v1", proxy=True, open_proxy=True),
    "claude": Source(
        make=claude_request,
        root="https://api.anthropic.com/v1",
        path="/messages",
        key_header="x-api-key",
        proxy=True,
    ),
    "openrouter": Source(root="https://openrouter.ai/api/v1", headers=APP_HEADERS),
    "ai21": Source(
        make=own.ai21_request, root="https://api.ai21.com/studio/v1", headers={"accept": "application/json"}
    ),
    "makersuite": Source(
        make=google_request, address=google_address, key_header="", proxy=True, open_proxy=True
    ),
    "vertexai": Source(make=google_request, address=google_address, key_header="", proxy=True, open_proxy=True),
    "mistralai": Source(make=own.mistral_request, root="https://api.mistral.ai/v1", proxy=True),
    "custom": Source(root=lambda given: given.text("custom_url"), needs_key=False),
    "cohere": Source(make=own.cohere_request, root="https://api.cohere.ai/v2", path="/chat"),
    "perplexity": Source(root="https://api.perplexity.ai"),
    "groq": Source(root="https://api.groq.com/openai/v1"),
    "chutes": Source(make=own.chutes_request, root="https://llm.chutes.ai/v1"),
    "electronhub": Source(make=own.electronhub_request, root="https://api.electronhub.ai/v1"),
    "nanogpt": Source(root="https://nano-gpt.com/api/v1"),
    "deepseek": Source(
        make=own.deepseek_request, root="https://api.deepseek.com/beta", proxy=True, open_proxy=True
    ),
    "aimlapi": Source(make=own.aimlapi_request, root="https://api.aimlapi.com/v1", headers=APP_HEADERS),
    "xai": Source(make=own.xai_request, root="https://api.x.ai/v1", proxy=True, open_proxy=True),
    "pollinations": Source(
        root=_by_endpoint(
            "pollinations_endpoint", "https://gen.pollinations.ai/v1", anonymous="https://text.pollinations.ai/v1"
        )
    ),
    "moonshot": Source(root="https://api.moonshot.ai/v1", proxy=True, open_proxy=True),
    "fireworks": Source(root="https://api.fireworks.ai/inference/v1", headers=_session_affinity),
    "azure_openai": Source(make=own.azure_request, address=_azure, key_header="api-key"),
    "zai": Source(
        root=_by_endpoint("zai_endpoint", "https://api.z.ai/api/paas/v4", coding="https://api.z.ai/api/coding/paas/v4"),
        headers={"accept-language": "en-US,en"},
        proxy=True,
        open_proxy=True,
    ),
    "siliconflow": Source(
        root=_by_endpoint(
            "siliconflow_endpoint", "https://api.siliconflow.com/v1", cn="https://api.siliconflow.cn/v1"
        )
    ),
    "minimax": Source(
        make=own.minimax_request,
        root=_by_endpoint("minimax_endpoint", "https://api.minimax.io/v1", cn="https://api.minimaxi.com/v1"),
    ),
    "workers_ai": Source(root=_workers_ai),
}  # fmt: skip
"""Every source of SillyTavern 1.19.0, by its own names."""

DISABLED: Mapping[str, str] = {"cometapi": "This provider is temporarily disabled."}
"""Sources that SillyTavern 1.19.0 knows but refuses, with its message."""

CHAT_SOURCES: tuple[str, ...] = (*SOURCES, *DISABLED)
"""Every value of ``chat_completion_source``."""


ANONYMOUS_KEY = "anonymous"


def chat_request(
    body: Mapping[str, Json],
    connection: Connection | None = None,
    config: SillyTavernConfig = DEFAULT_CONFIG,
    *,
    random: Random | None = None,
    warn: Warn = log_warning,
) -> ProviderRequest:
    """Make the request that SillyTavern's server sends for a body of ``chat_page_body()``.

    Args:
        body: The page's body; its ``chat_completion_source`` says which source is asked.
        connection: The API key and other data about the provider.
        config: The server's settings.
        random: Makes the seed and the user's id if the server generates them.
        warn: Called with ignored data: a custom endpoint's fields that are not YAML.

    Raises:
        RequestRefusedError: SillyTavern would send nothing: the source is unknown or disabled, a key or a part of
            the address is missing.
        MessageConversionError: A message has content that the provider's format does not support.
    """
    name = body.get("chat_completion_source")
    if isinstance(name, str) and name in DISABLED:
        message = DISABLED[name]
        answer: Json = {"error": {"message": message}}
        raise RequestRefusedError(f"{name}: {message}", code="DISABLED_SOURCE", status=502, answer=answer)
    source = SOURCES.get(name) if isinstance(name, str) else None
    if source is None:
        known = ", ".join(SOURCES)
        raise RequestRefusedError(
            f"unknown chat_completion_source {name!r}; pass one of {known}", code="UNKNOWN_SOURCE"
        )
    read = _read(body, connection or Connection(), config)
    given = _with_key(dataclasses.replace(read, random=random or Random(), warn=warn), source)
    made = source.make(given)
    headers = dict(source.headers(given) if callable(source.headers) else source.headers)
    if source.key_header == "authorization":
        headers["authorization"] = f"Bearer {given.key}"
    elif source.key_header:
        headers[source.key_header] = given.key
    return ProviderRequest(
        _address(given, source, made.path),
        made.body,
        json_headers({**headers, **made.headers}),
        secrets=(given.key, given.connection.access_token),
    )


def _read(body: Mapping[str, Json], connection: Connection, config: SillyTavernConfig) -> PageBody:
    """Read the page's body and run the steps before the source's own."""
    names = PromptNames.from_request(body)
    raw = body.get("messages")
    messages = copied(raw)
    kind = body.get("custom_prompt_post_processing")
    if isinstance(kind, str) and kind and is_list(raw):
        messages = post_process(messages, kind, names, config)
    return PageBody(
        body=body,
        messages=messages,
        prompt=raw if isinstance(raw, str) else None,
        json_schema=_schema(body),
        names=names,
        config=config,
        connection=connection,
    )


def _schema(body: Mapping[str, Json]) -> JsonObject | None:
    schema, source = body.get("json_schema"), body.get("chat_completion_source")
    if not is_object(schema):
        return {} if truthy(schema) else None  # any value asks for JSON, only an object says which
    if not truthy(schema.get("value")):
        return schema
    return {**schema, "value": flatten_schema(schema["value"], source if isinstance(source, str) else "")}


def _with_key(given: PageBody, source: Source) -> PageBody:
    """Choose between the stored key and the proxy's password."""
    proxy = given.text("reverse_proxy") if source.proxy else ""
    key = given.text("proxy_password") if proxy else given.connection.key
    if given.source == "pollinations" and given.text("pollinations_endpoint") == ANONYMOUS_KEY:
        key = ANONYMOUS_KEY
    chosen = dataclasses.replace(given, proxy=proxy, key=key)
    if is_service_account(chosen):
        key = given.connection.access_token
    if not key and source.needs_key and not (proxy and source.open_proxy):
        raise RequestRefusedError(f"{given.source}: an API key is needed", code="MISSING_KEY")
    return chosen


def _address(given: PageBody, source: Source, path: str | None) -> str:
    if source.address is not None:
        return source.address(given)
    root = source.root(given) if callable(source.root) else source.root
    if given.proxy:
        # A host alone counts as one with a final slash, and nothing is trimmed.
        root = given.proxy if urlsplit(given.proxy).path else f"{given.proxy}/"
    return root + (path or source.path)
