"""Requests of OpenAI's surface."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from tavernkit.server.limits import (
    MAX_BOOKS,
    MAX_CHOICES,
    MAX_CONTEXT_LENGTH,
    MAX_ID_CHARACTERS,
    MAX_MESSAGES,
    MAX_NAME_CHARACTERS,
    MAX_TOOLS,
)
from tavernkit.server.storage.tables import storable

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
ID_PATTERN = r"^\.*[\w-][\w.-]*$"
"""Not only dots: clients leave ``..`` out of paths."""
ItemId = Annotated[str, Field(min_length=1, max_length=100, pattern=ID_PATTERN)]
Text = Annotated[str, AfterValidator(storable)]
"""Text that every database can store."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(storable)]
Platform = Literal["silly_tavern", "risu_ai"]


class ChatMessageIn(BaseModel):
    """A message of the client's history."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, JsonValue]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_call_id: str | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = False


class TavernKitOptions(BaseModel):
    """The extension object ``tavernkit``: the inputs of the prompt, and whether to explain it."""

    model_config = ConfigDict(extra="forbid")

    platform: Platform | None = None
    persona: ItemId | None = None
    preset: ItemId | None = None
    books: list[ItemId] = Field(default_factory=list, max_length=MAX_BOOKS)
    dialect: str | None = Field(default=None, max_length=40)
    upstream: str | None = Field(default=None, max_length=100)
    speaker: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    session: Id | None = None
    """The same as the header ``X-Tavern-Session``."""
    context_length: int | None = Field(default=None, ge=256, le=MAX_CONTEXT_LENGTH)
    strategy: Literal["reference", "cache"] | None = None
    """How the prompt is made to fit; ``cache`` cuts the history in larger steps. Stored with the session."""
    lore: Literal["reference", "freeze"] | None = None
    """Where lore goes that fires by key; ``freeze`` keeps it in the history where it fired."""
    volatile: Literal["reference", "tail"] | None = None
    """Where notes and changing texts go; ``tail`` puts them after the history."""
    memory: bool | None = None
    """True if a model summarises the session in the background; stored with the session."""
    quirks: Literal["reference"] | None = None
    """``reference``: do as RisuAI does even where it damages the chat. Stored with the session."""
    explain: bool = False

    @property
    def kept(self) -> dict[str, JsonValue]:
        """Return the options that are stored with a session."""
        return {name: value for name in KEPT_OPTIONS if (value := getattr(self, name)) is not None}


KEPT_OPTIONS = ("strategy", "lore", "volatile", "memory", "quirks")
"""Options of the extension object that are stored with a session."""


class ChatCompletionRequest(BaseModel):
    """``POST /v1/chat/completions``. Other known options are passed to the model."""

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
    messages: list[ChatMessageIn] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS)
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = 1
    tools: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MAX_TOOLS)
    response_format: dict[str, JsonValue] | None = None
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)


PASSED_ON = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "verbosity",
    # Of servers for open models: llama.cpp, vLLM, SGLang, TabbyAPI, KoboldCpp, Aphrodite, OpenRouter.
    "top_a",
    "tfs",
    "typical_p",
    "min_tokens",
    "repeat_penalty",
    "repeat_last_n",
    "dynatemp_range",
    "dynatemp_exponent",
    "smoothing_factor",
    "smoothing_curve",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "samplers",
    "ignore_eos",
    "stop_token_ids",
    "grammar",
    "json_schema",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "chat_template_kwargs",
    "cache_prompt",
    "thinking",
    "reasoning",
    "provider",
    "transforms",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
)
"""Options of a request that are passed to the model unchanged."""


def is_given(name: str, value: object) -> bool:
    """Return False for options that leave the choice to the preset and the model, such as SillyTavern's ``auto``."""
    return value is not None and (name, value) != ("reasoning_effort", "auto")
