"""The plan of a chat-completion build, and the request that SillyTavern's page would send for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_object,
    thaw,
    thaw_object,
)
from tavernkit.dialects._shapes import openai_part
from tavernkit.errors import Warn
from tavernkit.prompt._block import Block, Message
from tavernkit.prompt._plan import Plan
from tavernkit.silly_tavern._chat.output_cleanup import custom_stop_strings
from tavernkit.silly_tavern._chat.vector_storage import VectorCall
from tavernkit.silly_tavern._chat_completion.tools import Tool
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import PowerUser
from tavernkit.silly_tavern.providers._chat.page import ChatInput, chat_page_body, tools_callable
from tavernkit.silly_tavern.providers._chat.page_body import yaml_keys, yaml_object
from tavernkit.silly_tavern.providers._chat.page_models import LOGIT_BIAS_SOURCES, takes_no_system_role
from tavernkit.silly_tavern.providers._text.given import TextInput, bias_entries, number

if TYPE_CHECKING:
    from tavernkit.models._request import WireRequest
    from tavernkit.silly_tavern._chat.chat_message import ChatMessage
    from tavernkit.silly_tavern._macros.environment import MacroMemory


_SOURCES = {"anthropic": "claude", "google": "makersuite", "mistral": "mistralai", "azure": "azure_openai"}
"""SillyTavern's names of sources that have other names elsewhere."""

UNSQUASHED = frozenset({"newMainChat", "newChat", "groupNudge"})
"""Identifiers of lines that stay separate messages."""


@dataclass(frozen=True)
class ChatPlan(Plan):
    """What SillyTavern would send, block by block.

    ``chat`` is the chat as it would be stored when the reply arrives (including the new message). Blocks are separate;
    system messages are squashed, if the preset says so, when messages are made from them.
    ``token_counts`` is the cost of each prompt identifier, ``budget_left`` what remained, ``overflow`` why the
    assembly ended early, if it did. ``vector_calls`` are the searches of Vector Storage.
    """

    chat: Sequence[ChatMessage] = ()
    squash: bool = False
    """True if system messages that follow each other are joined."""
    system_as_user: bool = False
    """True if system messages are sent as the user's, because the model does not accept the system role."""
    token_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    budget_left: int = 0
    overflow: str | None = None
    overridden_prompts: Sequence[str] = ()
    """Identifiers of prompts that the card replaced."""
    vector_calls: Sequence[VectorCall] = ()
    vector_texts: Sequence[str] = ()
    """The messages as Vector Storage indexes them (``index_chat``), if it is on for chats and no results were given."""
    timed_world_info: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Sticky entries, cooldowns and delays, to be stored in the chat's header."""
    continued_text: str = ""
    """The text to continue: the newest visible message as it is in the prompt."""
    chat_messages_sent: int = 0
    """How many messages of the chat are in the prompt."""
    macro_memory: MacroMemory | None = field(default=None, repr=False, compare=False)
    """The macros' state besides variables, to be stored when the reply has arrived."""
    preset: Preset | None = field(default=None, repr=False, compare=False)
    """The preset that the prompt was built with."""
    page: ChatInput | None = field(default=None, repr=False, compare=False)
    """What SillyTavern's page needs, besides the preset, for the request."""

    _unpickled: ClassVar[Mapping[str, object]] = {"count_tokens": None, "raw_texts": None, "again": None, "page": None}

    __repr__ = Plan.__repr__

    def _prepared(self, *, squash: bool) -> list[Message]:
        return [block.to_message() for block in self._final_blocks(squash=squash or self.squash)]

    @property
    def plain_blocks(self) -> Sequence[Block] | None:
        """The blocks, one for each message; None if a message may be made of several."""
        return None if self.squash or self.rendered is not None else self._final_blocks(squash=False)

    def _messages_for(self, dialect: str, model: str) -> list[Message]:
        """Claude gets the preset's prefill."""
        prefill = self._prefill() if dialect == "anthropic" else ""
        return [*self.messages, Message("assistant", prefill)] if prefill else self.messages

    def _prefill(self) -> str:
        if self.preset is None or self.page is None:
            return ""
        body = chat_page_body(self.preset.replace(chat_completion_source="claude"), [], self.page)
        prefill = body.get("assistant_prefill")
        return prefill.rstrip() if isinstance(prefill, str) else ""

    def _reference_request(
        self, provider: str | None, *, model: str, api_key: str, base_url: str, warn: Warn
    ) -> WireRequest:
        from tavernkit.models._request import WireRequest
        from tavernkit.silly_tavern.providers import Connection, chat_request, unsent_chat_settings

        body, preset = self.to_request(), self.preset
        if preset is not None and self.page is not None:
            preset = preset.replace(chat_completion_source=_SOURCES.get(provider, provider)) if provider else preset
            preset = preset.with_model(model) if model else preset
            preset = _placed(preset, base_url, warn)
            messages = [message for message in _list(body["messages"]) if is_object(message)]
            written = chat_page_body(preset, messages, self.page)
            # The application's options override the preset; the rest was written for the preset's own source.
            usual = chat_page_body(self.preset, [], self.page) if self.preset is not None else {}
            asked = {key: value for key, value in body.items() if key != "messages" and usual.get(key) != value}
            body = {**written, **asked}
            unsent = unsent_chat_settings(preset, self.page)
            if unsent:
                warn(f"{preset.chat_completion_source} does not get {', '.join(unsent)}: left out of the request")
        made = chat_request(body, Connection(key=api_key), warn=warn)
        return WireRequest(method=made.method, url=made.url, headers=made.headers, body=freeze_object(made.body))

    def to_request(self) -> JsonObject:
        """Return the body that SillyTavern posts to its own backend."""
        messages: list[Json] = [_request_message(block) for block in self._final_blocks(squash=self.squash)]
        return {"messages": messages, **thaw_object(self.llm_options)}

    def _final_blocks(self, *, squash: bool) -> list[Block]:
        blocks = [block for block in self.blocks if block.enabled]
        if squash:
            blocks = squashed(blocks)
        if self.system_as_user:
            blocks = [block.replace(role="user") if block.role == "system" else block for block in blocks]
        return blocks


def _placed(preset: Preset, base_url: str, warn: Warn) -> Preset:
    source = preset.chat_completion_source
    if base_url and source == "custom":
        return preset.replace(custom_url=base_url)
    if base_url and source == "azure_openai":
        return preset.replace(source={**preset.source, "azure_base_url": base_url})
    if base_url:
        warn(f"base_url is left out: SillyTavern knows where {source} is")
    return preset


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def squashed(blocks: Sequence[Block]) -> list[Block]:
    """Join neighbouring system messages that have no name and are not separators.

    A block that was placed after an empty user or assistant prompt (``metadata["apart"]``) begins a new message.
    """
    found: list[Block] = []
    for block in blocks:
        if block.role == "system" and not block.content and not block.message_metadata:
            continue
        if found and _squashable(found[-1]) and _squashable(block) and not block.metadata.get("apart"):
            found[-1] = found[-1].replace(
                content=found[-1].content + added("\n", "squash_system_messages") + block.content
            )
        else:
            found.append(block)
    return found


def _squashable(block: Block) -> bool:
    return block.role == "system" and not block.name and block.metadata.get("identifier") not in UNSQUASHED


def _request_message(block: Block) -> JsonObject:
    message: JsonObject = {"role": block.role}
    metadata = block.message_metadata or EMPTY_OBJECT
    if block.attachments is not None:
        message["content"] = [openai_part("text", block.content), *(thaw(part) for part in block.attachments)]
    elif "tool_calls" not in metadata:
        message["content"] = block.content
    if block.name:
        message["name"] = block.name
    message.update((key, thaw(value)) for key, value in metadata.items())
    return message


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
