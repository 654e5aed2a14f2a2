"""The request RisuAI would post for a prompt: address, headers and body, in the format of the model's provider.

Users can add fields and headers of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, to_number, trim
from tavernkit._values import Json, JsonObject, is_object, is_sequence
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import (
    DEFAULT_OPENROUTER_MODEL,
    ENDPOINT_KEYS,
    OPENROUTER,
    PROVIDERS,
    Provider,
    WireFormat,
    endpoint_of,
    model_info,
)
from tavernkit.risu_ai._requests.anthropic_format import anthropic_body, anthropic_headers, bedrock_body
from tavernkit.risu_ai._requests.google_and_cohere_format import cohere_body, google_body, google_url
from tavernkit.risu_ai._requests.messages import RequestRules, request_messages, rewritten_messages
from tavernkit.risu_ai._requests.openai_format import (
    OPENROUTER_MODEL,
    Encode,
    legacy_body,
    mistral_body,
    openai_body,
    responses_body,
)
from tavernkit.risu_ai._requests.parameters import MAIN_MODE

EMPTY_KEYS: Mapping[str, str] = MappingProxyType({})
KEY_NAMES = (
    "openai", "anthropic", "google", "vertex", "mistral", "cohere", "openrouter", "proxy", "deepseek", "deepinfra",
)  # fmt: skip
"""Whose keys a request may hold."""

MISSING_KEY = "undefined"
"""What RisuAI writes for a key that is not set."""

_OPENROUTER_HEADERS = {"X-Title": "RisuAI", "HTTP-Referer": "https://risuai.xyz"}
_GOOGLE = (WireFormat.GOOGLE, WireFormat.VERTEX)
_WRITTEN_HERE = frozenset(WireFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuRequest:
    """A request to a provider. The headers, and Google's address, hold the key that was given.

    There is no address for services that the user runs, or whose address is part of a signature.
    """

    url: str
    """The address; empty if RisuAI's is not known."""
    headers: Mapping[str, str] = field(repr=False)
    """The HTTP headers."""
    body: JsonObject
    """The JSON body."""


def reference_request(
    messages: Sequence[PromptMessage],
    rules: RequestRules,
    *,
    max_tokens: int,
    text: str | None = None,
    keys: Mapping[str, str] = EMPTY_KEYS,
    stream: bool = False,
    mode: str = MAIN_MODE,
    encode: Encode | None = None,
    warn: Warn = log_warning,
    strict: bool = False,
) -> RisuRequest:
    """Write the request that RisuAI would post.

    Args:
        messages: The prompt, with escaped characters turned back (``unescaped()``).
        rules: The model and the user's settings (``RequestRules.of()``).
        max_tokens: How long the reply may be.
        text: The prompt as one text, for services that want it so.
        keys: API keys by provider: ``openai``, ``anthropic``, ``google``, ``vertex`` (with ``vertex_project``),
            ``mistral``, ``cohere``, ``openrouter``, ``proxy``, ``deepseek``, ``deepinfra``.
        stream: True to request a stream.
        mode: What the request is for: ``model``, or a helper request such as ``memory`` or ``emotion``.
        encode: Splits texts into tokens, for biases that are given as text.
        warn: Called with warnings about differences from RisuAI's request.
        strict: Raise if RisuAI itself would throw.

    Raises:
        RequestFormatError: In strict mode, for a prompt that RisuAI cannot send to this model.
    """
    wire_name = _wire_name(rules)
    form, known = rules.format, rules.format in _WRITTEN_HERE
    if not known:
        warn(f"the format of {rules.model!r} is not known here; the body is written in OpenAI's, without an address")
        form = WireFormat.OPENAI
    headers = _headers(rules, form, keys, max_tokens) if known else {}
    body: JsonObject
    if form in (WireFormat.OPENAI, WireFormat.MISTRAL):
        written = request_messages(messages, rules, warn=warn, strict=strict)
        if form == WireFormat.MISTRAL:
            body = mistral_body(rules, written, max_tokens=max_tokens, mode=mode)
        else:
            body = openai_body(
                rules,
                wire_name,
                written,
                max_tokens=max_tokens,
                stream=stream,
                text=text,
                encode=encode,
                mode=mode,
                warn=warn,
            )
    else:
        body = _other_body(rules, form, wire_name, messages, max_tokens, stream, mode, warn, strict)
    if not stream:  # RisuAI leaves requests for streams as they are
        add_fields(body, headers, additional_pairs(rules))
    url = _url(rules, form, wire_name, keys, stream) if known else ""
    return RisuRequest(url=url, headers=headers, body=body)


def _other_body(
    rules: RequestRules,
    form: int,
    wire_name: str,
    messages: Sequence[PromptMessage],
    max_tokens: int,
    stream: bool,
    mode: str,
    warn: Warn,
    strict: bool,
) -> JsonObject:
    rewritten = rewritten_messages(messages, rules, warn=warn, strict=strict)
    if form == WireFormat.ANTHROPIC:
        return anthropic_body(rules, wire_name, rewritten, max_tokens=max_tokens, stream=stream, mode=mode)
    if form == WireFormat.BEDROCK:
        return bedrock_body(rules, rewritten, max_tokens=max_tokens, mode=mode)
    if form in _GOOGLE:
        return google_body(rules, wire_name, rewritten, max_tokens=max_tokens, mode=mode)
    if form == WireFormat.COHERE:
        return cohere_body(rules, rewritten, mode=mode)
    if form == WireFormat.RESPONSES:
        return responses_body(rules, wire_name, rewritten, max_tokens=max_tokens, mode=mode)
    return legacy_body(rules, rewritten, max_tokens=max_tokens, mode=mode)


def _wire_name(rules: RequestRules) -> str:
    if rules.proxied:
        return str(rules.setting("customProxyRequestModel", ""))
    if rules.model == OPENROUTER_MODEL:
        return str(rules.setting("openrouterRequestModel", DEFAULT_OPENROUTER_MODEL))
    return model_info(rules.model, rules.settings.for_texts(rules.preset).custom_models).internal_id


def _provider(rules: RequestRules, form: int) -> Provider:
    return OPENROUTER if rules.model == OPENROUTER_MODEL else PROVIDERS.get(form, PROVIDERS[WireFormat.OPENAI])


def _headers(rules: RequestRules, form: int, keys: Mapping[str, str], max_tokens: int) -> dict[str, str]:
    if form == WireFormat.GOOGLE or form == WireFormat.BEDROCK:
        return {}
    if form == WireFormat.VERTEX:
        return {"Authorization": f"Bearer {keys.get('vertex', MISSING_KEY)}"}
    provider, endpoint = _provider(rules, form), endpoint_of(rules.model)
    owner = "proxy" if rules.proxied else provider.key
    if endpoint is not None:
        owner = next((name for host, name in ENDPOINT_KEYS.items() if host in endpoint), owner)
    headers = {provider.header: f"{provider.scheme}{keys.get(owner, MISSING_KEY)}"}
    if form == WireFormat.ANTHROPIC:
        headers |= anthropic_headers(rules, max_tokens)
    if rules.model == OPENROUTER_MODEL:
        headers |= _OPENROUTER_HEADERS
    return headers


def _url(rules: RequestRules, form: int, wire_name: str, keys: Mapping[str, str], stream: bool) -> str:
    if form in _GOOGLE:
        key = keys.get("proxy" if rules.proxied else "google", MISSING_KEY)
        project = keys.get("vertex_project", MISSING_KEY)
        return google_url(rules, wire_name, key=key, project=project, stream=stream)
    if form == WireFormat.BEDROCK:
        return ""  # made of the user's region when the request is signed
    provider = _provider(rules, form)
    if rules.proxied:
        stated = rules.setting("forceReplaceUrl")
        return _proxy_url(rules, stated if isinstance(stated, str) else "", provider.ending)
    return endpoint_of(rules.model) or provider.url


def _proxy_url(rules: RequestRules, url: str, ending: str) -> str:
    """Complete the address of a proxy, unless the user wants it as it is."""
    if not ending or not rules.setting("autofillRequestUrl", True):
        return url
    bare = url.removesuffix("/")
    if bare.endswith("v1"):
        return f"{bare}/{ending}"
    if bare.endswith(ending.rpartition("/")[2]):
        return url
    return f"{bare}/v1/{ending}"


NONE = "{{none}}"
HEADER, JSON_VALUE = "header::", "json::"
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
MAX_PARTS = 32
"""How deep a key with dots may lead."""


def additional_pairs(rules: RequestRules) -> list[tuple[str, str]]:
    """The pairs a user added: of the proxy, or the ``key=value`` lines of a model of their own."""
    if rules.proxied:
        listed = rules.setting("additionalParams")
        rows = [row for row in listed if is_sequence(row) and len(row) > 1] if is_sequence(listed) else []
        return [(str(row[0]), str(row[1])) for row in rows if row[0] and row[1]]
    own = next((each for each in rules.settings.custom_models if each.get("id") == rules.model), None)
    lines = str(own.get("params") or "").split("\n") if own is not None else []
    pairs = (line.partition("=") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs if key.strip() and value.strip()]


def add_fields(body: JsonObject, headers: dict[str, str], pairs: Iterable[tuple[str, str]]) -> None:
    """Set or remove fields of the body and headers, in order."""
    for key, value in pairs:
        if key.startswith(HEADER):
            name = key.removeprefix(HEADER)
            if value == NONE:
                headers.pop(name, None)
            else:
                headers[name] = value
        elif value == NONE:
            body.pop(key, None)
        elif value.startswith(JSON_VALUE):
            try:
                body[key] = json_parse(value.removeprefix(JSON_VALUE))
            except JSSyntaxError:
                continue
        else:
            _set(body, key.split(".")[:MAX_PARTS], _value(value))


def _set(body: JsonObject, path: list[str], value: Json) -> None:
    *parents, last = path
    for name in parents:
        inner = body.get(name)
        if not is_object(inner):
            inner = body[name] = {}
        body = inner
    body[last] = value


def _value(text: str) -> Json:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    number = to_number(text)
    if not trim(text) or not math.isfinite(number):
        return text
    return int(number) if abs(number) < 2**53 and number == int(number) else number
