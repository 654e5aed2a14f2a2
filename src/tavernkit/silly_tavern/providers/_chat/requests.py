"""Makes the request to any chat-completion source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from random import Random
from urllib.parse import urlsplit

from tavernkit._text.js_values import truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern.providers._chat.google import is_service_account
from tavernkit.silly_tavern.providers._chat.page_body import PageBody
from tavernkit.silly_tavern.providers._chat.schemas import flatten_schema
from tavernkit.silly_tavern.providers._chat.sources import DISABLED, SOURCES, Source
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import copied
from tavernkit.silly_tavern.providers._converters.names import PromptNames
from tavernkit.silly_tavern.providers._converters.post_process import post_process
from tavernkit.silly_tavern.providers._request import Connection, ProviderRequest, RequestRefusedError, json_headers

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
        return None
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
