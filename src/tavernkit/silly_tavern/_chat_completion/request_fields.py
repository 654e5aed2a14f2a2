"""The fields that SillyTavern sends with the messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, is_mapping, thaw
from tavernkit.errors import Warn
from tavernkit.silly_tavern._chat_completion.tools import Tool, tools_callable
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import PowerUser
from tavernkit.silly_tavern._text_completion.stop_strings import custom_stop_strings
from tavernkit.silly_tavern.providers._chat.page import ChatInput, chat_page_body
from tavernkit.silly_tavern.providers._chat.page_body import yaml_keys, yaml_object
from tavernkit.silly_tavern.providers._chat.page_models import LOGIT_BIAS_SOURCES, takes_no_system_role
from tavernkit.silly_tavern.providers._text.given import TextInput, bias_entries, number

LEFT_OUT = ("messages", "reverse_proxy", "proxy_password")
"""Fields of the page's body that are not part of a plan: messages come from blocks, and secrets are left out."""


@dataclass(frozen=True, slots=True)
class RequestInput:
    """Inputs of the fields besides the preset."""

    generation_type: str
    user_name: str
    character_name: str
    group_names: tuple[str, ...]
    max_tokens: int
    tools: Sequence[Tool]
    expand: Callable[[str], str]
    power_user: PowerUser
    warn: Warn
    logit_bias: Mapping[str, float] | None = None


def page_input(preset: Preset, given: RequestInput) -> ChatInput:
    """Return the inputs for the body of a request, besides the preset."""
    return ChatInput(
        generation_type=given.generation_type,
        user_name=given.user_name,
        char_name=given.character_name,
        group_names=given.group_names,
        max_tokens=given.max_tokens,
        stop_strings=stopping_strings(given.power_user, given.expand, given.warn),
        tools=[tool.to_json() for tool in given.tools] if tools_callable(preset, given.generation_type) else (),
        logit_bias=given.logit_bias,
        token_probabilities=given.power_user.request_token_probabilities,
        expand=given.expand,
    )


def logit_bias(
    settings: FrozenObject, preset: Preset, encode: Callable[[str], list[int]] | None, warn: Warn
) -> Mapping[str, float] | None:
    """Return the biases of the chosen list of ``bias_presets``, by token id.

    Args:
        settings: The settings file, whose ``oai_settings`` has the lists.
        preset: The preset, which chooses one.
        encode: Returns the token ids of a text, if the model's tokenizer is available.
        warn: Called with what is left out.
    """
    chat = settings.get("oai_settings")
    lists = chat.get("bias_presets") if is_mapping(chat) else None
    chosen = lists.get(str(preset.get("bias_preset_selected"))) if is_mapping(lists) else None
    if not chosen or preset.chat_completion_source not in LOGIT_BIAS_SOURCES:
        return None
    given = TextInput(prompt="", max_tokens=0, max_context=0, tokenize=encode, warn=warn)
    entries = bias_entries({"logit_bias": thaw(chosen)}, given)
    return {str(token): number(value) for ids, value in entries for token in ids} or None


def request_fields(preset: Preset, page: ChatInput) -> JsonObject:
    """Return all fields of the request except ``messages``."""
    body = chat_page_body(preset, [], page)
    return {name: value for name, value in body.items() if name not in LEFT_OUT}


def sampling_options(preset: Preset, page: ChatInput, warn: Warn) -> JsonObject:
    """Return the preset's options for any model, in OpenAI's names, without neutral samplers.

    Args:
        preset: The preset.
        page: Other inputs of the request.
        warn: Called if a custom body (source ``custom``) is not YAML.
    """
    options: JsonObject = {
        "temperature": preset.temperature,
        "top_p": preset.top_p,
        "frequency_penalty": preset.frequency_penalty,
        "presence_penalty": preset.presence_penalty,
        "max_tokens": page.max_tokens,
    }
    for name, neutral in _NEUTRAL:
        value = getattr(preset, name)
        if value != neutral:
            options[name] = value
    if preset.seed >= 0:
        options["seed"] = preset.seed
    if page.stop_strings:
        options["stop"] = [*page.stop_strings]
    if page.tools:
        options["tools"] = [*page.tools]
    if preset.chat_completion_source == "custom":
        options |= yaml_object(preset.custom_include_body, warn)
        for name in yaml_keys(preset.custom_exclude_body, warn):
            options.pop(name, None)
    return options


_NEUTRAL = (
    ("top_k", 0),
    ("top_a", 0),
    ("min_p", 0),
    ("repetition_penalty", 1),
    ("reasoning_effort", "auto"),
    ("verbosity", "auto"),
)
"""Values at which settings have no effect."""


def system_becomes_user(preset: Preset) -> bool:
    """Return True if the model does not accept the system role."""
    return takes_no_system_role(preset.chat_completion_source, preset.model)


def stopping_strings(power_user: PowerUser, expand: Callable[[str], str], warn: Warn) -> list[str]:
    """Return the user's own stop strings: a JSON list of texts, with macros expanded if enabled."""
    texts = custom_stop_strings(power_user.custom_stopping_strings, warn)
    return [expand(text) for text in texts] if power_user.custom_stopping_strings_macro else texts
