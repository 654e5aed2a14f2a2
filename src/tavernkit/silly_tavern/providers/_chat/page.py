"""The body that SillyTavern's page makes for a chat-completion source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import utf16_length
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern.providers._chat import page_models as rules
from tavernkit.silly_tavern.providers._chat.messages import Messages, copied

UNCALLING_TYPES = ("impersonate", "quiet", "continue")
"""Generation types without tool calls, which always request one reply."""
TOOL_POST_PROCESSING = ("", "merge_tools", "semi_tools", "strict_tools")
"""Prompt post-processing that keeps tool calls."""
TOKEN_PROBABILITIES = 5
MESSAGES = "a list of messages in OpenAI's form, such as plan.to_messages('openai')"

PRESET_FIELDS: Mapping[str, str] = {
    "temperature": "temperature",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "top_p": "top_p",
    "include_reasoning": "show_thoughts",
    "enable_web_search": "enable_web_search",
    "request_images": "request_images",
    "request_image_resolution": "request_image_resolution",
    "request_image_aspect_ratio": "request_image_aspect_ratio",
    "custom_prompt_post_processing": "custom_prompt_post_processing",
}
"""Fields of every body, and the preset's attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatInput:
    """Inputs of the page's body besides the preset.

    Args:
        generation_type: ``normal``, ``continue``, ``impersonate``, ``quiet``, …
        user_name: The user's name.
        char_name: The character's name.
        group_names: The members of a group chat.
        max_tokens: The length of the reply, if it is not the preset's.
        stop_strings: The user's own stop strings, macros expanded; each source gets as many as it accepts.
        tools: Tools in OpenAI's form; they are offered if the preset, the source and the model allow it.
        can_call_tools: Whether the model supports tools, according to the provider's model list; unknown if ``None``.
        efforts: The model's reasoning efforts in the provider's model list; unknown if ``None``.
        json_schema: The schema of the answer: ``name``, ``value``, and optionally ``description`` and ``strict``.
        logit_bias: Token ids and their bias.
        token_probabilities: True if the page requests token probabilities.
        chat_id: The name of the open chat.
        expand: Expands the macros in a text of the preset.
    """

    generation_type: str = "normal"
    user_name: str = ""
    char_name: str = ""
    group_names: Sequence[str] = ()
    max_tokens: int | None = None
    stop_strings: Sequence[str] = ()
    tools: Sequence[JsonObject] = ()
    can_call_tools: bool | None = None
    efforts: Sequence[str] | None = None
    json_schema: JsonObject | None = None
    logit_bias: Mapping[str, float] | None = None
    token_probabilities: bool = False
    chat_id: str = ""
    expand: Callable[[str], str] = str


def chat_page_body(preset: Preset, messages: Sequence[JsonObject], given: ChatInput) -> JsonObject:
    """Make the body that SillyTavern's page posts to its server for a chat completion.

    Args:
        preset: The preset, which names the source and its model.
        messages: The finished prompt, in OpenAI's form.
        given: Other inputs of the body.
    """
    require("messages", messages, Sequence[Mapping[str, object]], MESSAGES)
    source, model = preset.chat_completion_source, preset.model
    body: JsonObject = {
        "type": given.generation_type,
        "chat_completion_source": source,
        "model": model,
        "messages": [*_messages(messages, source, model)],
        "user_name": given.user_name,
        "char_name": given.char_name,
        "group_names": [*given.group_names],
        "max_tokens": preset.openai_max_tokens if given.max_tokens is None else given.max_tokens,
        "stream": _streams(preset, given),
        **{name: getattr(preset, key) for name, key in PRESET_FIELDS.items()},
        **_source_fields(preset, given),
    }
    _adjust(body, preset)
    effort = rules.translate_effort(source, model, preset.reasoning_effort, shows_thoughts=preset.show_thoughts)
    # Electron Hub gets an effort only if its list says that the model supports it.
    if effort is not None and (source != "electronhub" or effort in (given.efforts or ())):
        body["reasoning_effort"] = effort
    if preset.verbosity != "auto":
        body["verbosity"] = preset.verbosity
    if given.json_schema is not None:
        body["json_schema"] = given.json_schema
    if given.logit_bias and source in rules.LOGIT_BIAS_SOURCES:
        body["logit_bias"] = {**given.logit_bias}
    if given.token_probabilities and source in rules.LOGPROBS_SOURCES:
        body["logprobs"] = TOKEN_PROBABILITIES
    stops = _stops(source, given.stop_strings)
    if stops is not None:
        body["stop"] = [*stops]
    if _sends_seed(preset):
        body["seed"] = preset.seed
    if _asks_for_several(preset, given):
        body["n"] = preset.n
    elif given.tools and given.can_call_tools is not False and tools_callable(preset, given.generation_type):
        body |= {"tools": [*given.tools], "tool_choice": "auto"}
    rules.drop_refused(body, source, model)
    return body


def _messages(messages: Sequence[JsonObject], source: str, model: str) -> Messages:
    turns = copied([*messages])
    if rules.takes_no_system_role(source, model):
        for turn in turns:
            if turn.get("role") == "system":
                turn["role"] = "user"
    if rules.IMAGES_OF_USERS_ONLY.search(model):
        turns = [kept for turn in turns if (kept := _without_images(turn)) is not None]
    return turns


def _without_images(turn: JsonObject) -> JsonObject | None:
    content = turn.get("content")
    if turn.get("role") not in ("system", "assistant") or not is_list(content):
        return turn
    parts: list[Json] = [part for part in content if not (is_object(part) and part.get("type") == "image_url")]
    return {**turn, "content": parts} if parts else None


def _streams(preset: Preset, given: ChatInput) -> bool:
    source = preset.chat_completion_source
    if source in rules.OPENAI and preset.model in rules.UNSTREAMED_MODELS:
        return False
    if source == "workers_ai" and given.json_schema is not None:
        return False
    return preset.stream_openai and given.generation_type != "quiet"


def _source_fields(preset: Preset, given: ChatInput) -> JsonObject:
    source = preset.chat_completion_source
    fields: JsonObject = {name: thaw(_value(preset, key)) for name, key in rules.SOURCE_FIELDS.get(source, {}).items()}
    for name in rules.EXPANDED_FIELDS.get(source, ()):
        fields[name] = given.expand(str(_value(preset, name)))
    if source in rules.PROXY_SOURCES and preset.get("reverse_proxy"):
        fields |= {key: thaw(preset.get(key)) for key in ("reverse_proxy", "proxy_password")}
    if source == "mistralai":
        fields["safe_prompt"] = False
    if source == "fireworks" and given.chat_id and given.generation_type != "quiet":
        fields["chat_id"] = given.chat_id
    if source == "claude":
        continues = given.generation_type == "continue" and preset.continue_prefill
        if given.generation_type != "quiet" and not continues:
            impersonates = given.generation_type == "impersonate"
            prefill = preset.assistant_impersonation if impersonates else preset.assistant_prefill
            fields["assistant_prefill"] = given.expand(prefill)
    return fields


def _value(preset: Preset, key: str) -> object:
    """Return an attribute of a preset, or any other key of its file."""
    return getattr(preset, key) if hasattr(preset, key) else preset.get(key)


def _adjust(body: JsonObject, preset: Preset) -> None:
    """Clamp samplers to the range that the source accepts."""
    source = preset.chat_completion_source
    for name, (low, high) in rules.CLAMPS.get(source, {}).items():
        value = body[name]
        assert isinstance(value, (int, float))
        body[name] = min(max(value, low), high)
    for name, instead in rules.ZEROS.get(source, {}).items():
        body[name] = body[name] or instead
    most = rules.POSITIVE_TOP_K.get(source)
    if most is not None and preset.top_k > 0:
        body["top_k"] = min(preset.top_k, most)


def _stops(source: str, stops: Sequence[str]) -> Sequence[str] | None:
    if source in rules.SOURCES_WITHOUT_STOPS:
        return None
    if source not in rules.STOP_COUNTS:
        return stops[: rules.DEFAULT_STOP_COUNT] or None
    first = stops[: rules.STOP_COUNTS[source]]
    if source in rules.GOOGLE:
        # Too long ones among the first are not replaced by later ones.
        return [text for text in first if 1 <= utf16_length(text) <= rules.GOOGLE_STOP_LENGTH]
    return first


def _sends_seed(preset: Preset) -> bool:
    if preset.chat_completion_source == "workers_ai":
        return preset.seed >= 1
    return preset.seed >= 0 and preset.chat_completion_source in rules.SEED_SOURCES


def _asks_for_several(preset: Preset, given: ChatInput) -> bool:
    return (
        preset.n > 1
        and given.generation_type not in UNCALLING_TYPES
        and preset.chat_completion_source in rules.SEVERAL_REPLIES_SOURCES
    )


def tools_supported(preset: Preset) -> bool:
    """Return True if a preset's source and model support tools."""
    source = preset.chat_completion_source
    if source in rules.OPENAI and preset.model.startswith("gpt-6-astra"):
        return False
    return (
        preset.function_calling
        and preset.custom_prompt_post_processing in TOOL_POST_PROCESSING
        and source not in rules.SOURCES_WITHOUT_TOOLS
    )


def tools_callable(preset: Preset, generation_type: str) -> bool:
    """Return True if the model may call tools in this generation."""
    return tools_supported(preset) and generation_type not in UNCALLING_TYPES
