"""Writes the body of a request for each protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tavernkit._values import (
    FrozenObject,
    Json,
    JsonObject,
    is_list,
    is_mapping,
    is_object,
    is_sequence,
    thaw,
    thaw_object,
)
from tavernkit.dialects import convert
from tavernkit.dialects._messages import MessageLike
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._options import Accepted, ServerFields, accepted_options
from tavernkit.models._parameters import GOOGLE_GENERATION, OLLAMA_OPTIONS, refuses_prefill
from tavernkit.models._request import Request
from tavernkit.prompt._block import Message

ANTHROPIC_MAX_TOKENS: Final = 4096
"""Anthropic requires a limit in every request; this one is sent if the request sets none."""

JSON_SCHEMA: Final = "json_schema"

TEXT_SERVERS: Final = (
    "ooba",
    "koboldcpp",
    "tabby",
    "aphrodite",
    "vllm",
    "huggingface",
    "mancer",
    "dreamgen",
    "featherless",
    "togetherai",
    "infermaticai",
    "generic",
)
"""Servers that speak OpenAI's text completions, with their own options."""

_Writer: TypeAlias = Callable[[Request, bool, Warn, ServerFields | None], JsonObject]


def request_body(
    request: Request, *, stream: bool = False, warn: Warn = log_warning, fields: ServerFields | None = None
) -> JsonObject:
    """Return the body that goes over the wire, in the protocol that ``request.dialect`` names.

    Args:
        request: The request.
        stream: Ask for the reply piece by piece.
        warn: Called with options that the provider or the model does not accept.
        fields: The options that the server accepts, if known.

    Raises:
        ConfigError: The request is for text completion and the protocol is not, or the dialect is unknown.
    """
    if request.wire is not None:
        return thaw_object(request.wire.body)
    body = _WRITERS.get(request.dialect, _chat_completion)(request, stream, warn, fields)
    return body if fields is None else {**body, **thaw_object(fields.always)}


def _chat_completion(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    """OpenAI's chat completions, and every dialect that is a list of messages in another shape."""
    sent = accepted_options("openai", request.model, request.options, request.stop, warn, fields)
    payload = written_messages(_chat(request), request.dialect, warn)
    body: JsonObject = {"model": request.model}
    body |= payload if is_object(payload) else {"messages": payload}
    body |= sent.options
    if sent.stop:
        body["stop"] = sent.stop
    if request.tools:
        body["tools"] = [thaw_object(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = thaw(request.tool_choice)
    else:
        # OpenAI refuses it without tools; runs with structured output set it to be safe.
        body.pop("parallel_tool_calls", None)
        _warn_about_choice(request, warn)
    if request.response_format is not None:
        body["response_format"] = _openai_format(request.response_format)
    return _with_stream(body, request, stream)


def written_messages(messages: Sequence[MessageLike], dialect: str, warn: Warn) -> Json:
    """Convert messages to a dialect; those in OpenAI's shape go to OpenAI-compatible servers unchanged.

    Args:
        messages: The messages.
        dialect: The dialect.
        warn: Called with what the dialect leaves out.
    """
    if dialect != "openai" or all(isinstance(each, Message) for each in messages):
        return thaw(convert(messages, dialect, attachments=True, warn=warn))
    written: list[Json] = []
    for message in messages:
        if isinstance(message, Message):
            written += convert([message], "openai", attachments=True, warn=warn)
        else:
            written.append(thaw_object(message))
    return written


def _openai_format(response_format: FrozenObject) -> JsonObject:
    """OpenAI refuses ``strict`` for schemas whose objects allow additional properties."""
    written = thaw_object(response_format)
    schema = written.get(JSON_SCHEMA)
    if is_object(schema) and schema.get("strict") is True and has_free_properties(schema.get("schema")):
        schema["strict"] = False
    return written


def has_free_properties(schema: object) -> bool:
    """Return True if a JSON schema has an object, at any depth, that allows additional properties."""
    if is_mapping(schema):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            return True
        return any(has_free_properties(part) for part in schema.values())
    return is_sequence(schema) and any(has_free_properties(part) for part in schema)


def _text_completion(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    """OpenAI's text completions; a chat is sent as its texts, joined by newlines."""
    sent = _sampling(request, warn, fields)
    body: JsonObject = {"model": request.model} if request.model else {}
    body |= {"prompt": _prompt(request, warn), **sent.options}
    if sent.stop:
        body["stop"] = sent.stop
    return _with_stream(body, request, stream)


def _llamacpp(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    sent = _sampling(request, warn, fields, "stream_options")
    body: JsonObject = {"prompt": _prompt(request, warn), "cache_prompt": True, **sent.options, "stream": stream}
    if sent.stop:
        body["stop"] = sent.stop
    return body


def _ollama(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    """Ollama's own API, without the model's template, because the prompt is complete."""
    sent = _sampling(request, warn, fields, "stream_options")
    options: JsonObject = {name: value for name, value in sent.options.items() if name in OLLAMA_OPTIONS}
    if sent.stop:
        options["stop"] = sent.stop
    rest: JsonObject = {name: value for name, value in sent.options.items() if name not in OLLAMA_OPTIONS}
    prompt = _prompt(request, warn)
    return {"model": request.model, "prompt": prompt, "raw": True, "stream": stream, **rest, "options": options}


def _kobold(request: Request, _stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    sent = _sampling(request, warn, fields, "stream_options")
    body: JsonObject = {"prompt": _prompt(request, warn), **sent.options}
    if sent.stop:
        body["stop_sequence"] = sent.stop
    return body


def _novelai(request: Request, _stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    """NovelAI takes stop strings as token numbers, so they are left out."""
    sent = _sampling(request, warn, fields, "stream_options")
    parameters: JsonObject = {"use_string": True, "generate_until_sentence": True, "return_full_text": False}
    return {"input": _prompt(request, warn), "model": request.model, "parameters": parameters | sent.options}


def _cohere(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    """Cohere's chat API, version 2: OpenAI's messages, but other names for options."""
    rest = _without(request.options, "parallel_tool_calls", "stream_options")
    sent = accepted_options("cohere_v2", request.model, rest, request.stop, warn, fields)
    body: JsonObject = {"model": request.model, "messages": written_messages(_chat(request), "openai", warn)}
    body |= {**sent.options, "stream": stream}
    if sent.stop:
        body["stop_sequences"] = sent.stop
    if request.tools:
        body["tools"] = [thaw_object(tool) for tool in request.tools]
        if request.tool_choice in ("required", "none"):
            body["tool_choice"] = str(request.tool_choice).upper()
        elif request.tool_choice not in (None, "auto"):
            warn("Cohere does not take a tool_choice that names a function: left out of the request")
    else:
        _warn_about_choice(request, warn)
    if request.response_format is not None:
        body["response_format"] = _cohere_format(request.response_format)
    return body


def _cohere_format(response_format: FrozenObject) -> JsonObject:
    wrapper = response_format.get(JSON_SCHEMA)
    written: JsonObject = {"type": "text" if response_format.get("type") == "text" else "json_object"}
    if is_mapping(wrapper):
        written[JSON_SCHEMA] = thaw(wrapper.get("schema"))
    return written


def _sampling(request: Request, warn: Warn, fields: ServerFields | None, *left_out: str) -> Accepted:
    """The options of a text completion; those for tools are left out."""
    if request.tools or request.response_format is not None:
        warn("text completion does not take tools or a response_format: left out of the request")
    rest = _without(request.options, "parallel_tool_calls", *left_out)
    return accepted_options(request.dialect, request.model, rest, request.stop, warn, fields)


def _prompt(request: Request, warn: Warn) -> Json:
    if request.messages is None:
        return request.prompt
    return thaw(convert(request.messages, "text", warn=warn)["prompt"])


def _with_stream(body: JsonObject, request: Request, stream: bool) -> JsonObject:
    """Ask for a stream with usage at its end, unless ``stream_options`` says otherwise (None: no such option)."""
    wanted = thaw(request.options.get("stream_options", {"include_usage": True}))
    body.pop("stream_options", None)
    if stream:
        body["stream"] = True
        if wanted is not None:
            body["stream_options"] = wanted
    return body


def _anthropic(request: Request, stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    user, parallel = request.options.get("user"), request.options.get("parallel_tool_calls")
    rest = _without(request.options, "user", "parallel_tool_calls", "stream_options", "betas")
    sent = accepted_options("anthropic", request.model, rest, request.stop, warn, fields)
    payload = convert(
        _chat(request),
        "anthropic",
        strict_alternation=True,
        tools=request.tools or None,
        tool_choice=request.tool_choice,
        parallel_tool_calls=parallel if isinstance(parallel, bool) else None,
        warn=warn,
    )
    if not payload.get("system"):
        payload.pop("system", None)
    _end_with_user(payload["messages"], request, warn)
    if request.response_format is not None:
        warn("Anthropic does not take response_format: left out of the request")
    if not request.tools:
        _warn_about_choice(request, warn)
    body: JsonObject = {"model": request.model, "max_tokens": ANTHROPIC_MAX_TOKENS, **payload, **sent.options}
    stops = [stop for stop in sent.stop if str(stop).strip()]  # the API refuses blank ones
    if stops:
        body["stop_sequences"] = stops
    if isinstance(user, str):
        body.setdefault("metadata", {"user_id": user})
    if stream:
        body["stream"] = True
    return body


def _google(request: Request, _stream: bool, warn: Warn, fields: ServerFields | None) -> JsonObject:
    rest = _without(request.options, "parallel_tool_calls", "stream_options")
    sent = accepted_options("google", request.model, rest, request.stop, warn, fields)
    body = convert(
        _chat(request),
        "google",
        strict_alternation=True,
        rest_names=True,
        tools=request.tools or None,
        tool_choice=request.tool_choice,
        warn=warn,
    )
    _end_with_user(body["contents"], request, warn)
    if not request.tools:
        _warn_about_choice(request, warn)
    generation: JsonObject = {name: value for name, value in sent.options.items() if name in GOOGLE_GENERATION}
    if sent.stop:
        generation["stopSequences"] = sent.stop
    generation |= _google_format(request.response_format)
    if generation:
        body["generationConfig"] = generation
    return body | {name: value for name, value in sent.options.items() if name not in GOOGLE_GENERATION}


def _google_format(response_format: FrozenObject | None) -> JsonObject:
    kind = response_format.get("type") if response_format is not None else None
    if response_format is None or kind not in ("json_object", JSON_SCHEMA):
        return {}
    written: JsonObject = {"responseMimeType": "application/json"}
    wrapper = response_format.get(JSON_SCHEMA)
    if kind == JSON_SCHEMA and is_mapping(wrapper):
        written["responseJsonSchema"] = thaw(wrapper.get("schema"))
    return written


def _chat(request: Request) -> Sequence[MessageLike]:
    if request.messages is None:
        raise ConfigError(
            f"this request is for text completion and {request.dialect!r} is a chat protocol: "
            "use tk.model('text:…', base_url=…)",
            code="PROMPT_FOR_CHAT_MODEL",
        )
    return request.messages


def _end_with_user(turns: Json, request: Request, warn: Warn) -> None:
    """Send a reply to be continued as the user's message if the model refuses it, as SillyTavern does."""
    last = turns[-1] if is_list(turns) and turns else None
    if is_object(last) and last["role"] != "user" and refuses_prefill(request.dialect, request.model):
        warn(f"{request.model} does not continue a reply: the last message is sent as the user's")
        last["role"] = "user"


def _warn_about_choice(request: Request, warn: Warn) -> None:
    if request.tool_choice not in (None, "none", "auto"):
        warn("tool_choice was left out of the request: it has no tools")


def _without(options: FrozenObject, *names: str) -> FrozenObject:
    return {name: value for name, value in options.items() if name not in names}


_WRITERS: Final[Mapping[str, _Writer]] = {
    "openai": _chat_completion,
    "anthropic": _anthropic,
    "google": _google,
    "llamacpp": _llamacpp,
    "ollama": _ollama,
    "kobold": _kobold,
    "novelai": _novelai,
    "cohere_v2": _cohere,
    **dict.fromkeys(("text", *TEXT_SERVERS), _text_completion),
}
"""Protocols with their own body; other dialects are sent as chat completions."""
