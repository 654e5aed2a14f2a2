"""The options of tool calling, and ready-made ones for providers and models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, deep_merge, freeze, freeze_object, is_mapping
from tavernkit.errors import log_warning
from tavernkit.vibe_tavern._capabilities import provider_id
from tavernkit.vibe_tavern._limits import MAX_TOOL_ARGS_BYTES, MAX_TOOL_OUTPUT_BYTES, TOOL_TIMEOUT_SECONDS
from tavernkit.vibe_tavern._options import (
    OptionReader,
    ToolCallingOptions,
    ToolDispatch,
    ToolFailurePolicy,
    ToolUseMode,
    merge_names,
)

ToolChoice: TypeAlias = "str | FrozenObject"

TOOL_USE_MODES: Final = ("enforced", "relaxed", "disabled")
TOOL_FAILURE_POLICIES: Final = ("fatal", "tolerated")
TOOL_DISPATCHES: Final = ("sequential", "parallel")
RESERVED_OVERRIDES: Final = frozenset(("model", "messages", "tools", "tool_choice", "response_format"))
"""Keys that request overrides cannot set; they are left out, with a warning."""

FIX_EMPTY_FINAL_TEXT: Final = "Now write your final answer for the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallingConfig:
    """How tools are offered, run and limited. Made with ``from_mapping()`` from a context's ``tool_calling``.

    ``enforced`` requires at least one tool call, ``disabled`` never sends tools. ``tool_failure_policy`` applies only
    with ``enforced``: ``fatal`` fails a run in which a tool's last result is an error, ``tolerated`` requires one
    success.
    """

    tool_use_mode: ToolUseMode = "relaxed"
    tool_failure_policy: ToolFailurePolicy = "tolerated"
    tool_allowlist: tuple[str, ...] | None = None
    tool_denylist: tuple[str, ...] | None = None
    fix_empty_final: bool = True
    fix_empty_final_user_text: str = FIX_EMPTY_FINAL_TEXT
    fix_empty_final_disable_tools: bool = True
    fallback_retry_count: int = 0
    max_tool_args_bytes: int = MAX_TOOL_ARGS_BYTES
    max_tool_output_bytes: int = MAX_TOOL_OUTPUT_BYTES
    max_tool_calls_per_turn: int | None = None
    max_total_tokens: int | None = None
    tool_timeout_seconds: float = TOOL_TIMEOUT_SECONDS
    tool_dispatch: ToolDispatch = "sequential"
    validate_tool_arguments: bool = False
    tool_choice: ToolChoice = "auto"
    message_transforms: tuple[str, ...] = ()
    tool_transforms: tuple[str, ...] = ()
    response_transforms: tuple[str, ...] = ()
    tool_call_transforms: tuple[str, ...] = ()
    tool_result_transforms: tuple[str, ...] = ()
    request_overrides: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def from_mapping(cls, value: object) -> ToolCallingConfig:
        """Read options; unknown and invalid ones are refused, numbers out of range become the default."""
        options = OptionReader(value, "tool_calling", ToolCallingOptions)
        return cls(
            tool_use_mode=cast("ToolUseMode", options.choice("tool_use_mode", TOOL_USE_MODES, default="relaxed")),
            tool_failure_policy=cast(
                "ToolFailurePolicy",
                options.choice("tool_failure_policy", TOOL_FAILURE_POLICIES, default="tolerated"),
            ),
            tool_allowlist=options.names("tool_allowlist") or None,
            tool_denylist=options.names("tool_denylist") or None,
            fix_empty_final=options.flag("fix_empty_final", default=True),
            fix_empty_final_user_text=options.text("fix_empty_final_user_text") or FIX_EMPTY_FINAL_TEXT,
            fix_empty_final_disable_tools=options.flag("fix_empty_final_disable_tools", default=True),
            fallback_retry_count=max(options.integer("fallback_retry_count") or 0, 0),
            max_tool_args_bytes=options.positive_integer("max_tool_args_bytes") or MAX_TOOL_ARGS_BYTES,
            max_tool_output_bytes=options.positive_integer("max_tool_output_bytes") or MAX_TOOL_OUTPUT_BYTES,
            max_tool_calls_per_turn=options.positive_integer("max_tool_calls_per_turn"),
            max_total_tokens=options.positive_integer("max_total_tokens"),
            tool_timeout_seconds=options.positive_number("tool_timeout_seconds") or TOOL_TIMEOUT_SECONDS,
            tool_dispatch=cast("ToolDispatch", options.choice("tool_dispatch", TOOL_DISPATCHES, default="sequential")),
            validate_tool_arguments=options.flag("validate_tool_arguments", default=False),
            tool_choice=_tool_choice(options),
            message_transforms=options.names("message_transforms"),
            tool_transforms=options.names("tool_transforms"),
            response_transforms=options.names("response_transforms"),
            tool_call_transforms=options.names("tool_call_transforms"),
            tool_result_transforms=options.names("tool_result_transforms"),
            request_overrides=_without_reserved(options.mapping("request_overrides")),
        )

    @property
    def tools_enabled(self) -> bool:
        """True if tools are sent at all."""
        return self.tool_use_mode != "disabled"


def _without_reserved(overrides: Mapping[str, object]) -> FrozenObject:
    reserved = sorted(RESERVED_OVERRIDES.intersection(overrides))
    if reserved:
        log_warning(f"tool_calling.request_overrides cannot set {', '.join(reserved)}: left out")
    return freeze_object({key: freeze(item) for key, item in overrides.items() if key not in RESERVED_OVERRIDES})


def _tool_choice(options: OptionReader) -> ToolChoice:
    value = options.get("tool_choice")
    return freeze_object(value) if is_mapping(value) else options.text("tool_choice") or "auto"


LIST_OPTIONS: Final = (
    "tool_allowlist",
    "tool_denylist",
    "message_transforms",
    "tool_transforms",
    "response_transforms",
    "tool_call_transforms",
    "tool_result_transforms",
)
"""Options that are lists of names: merging combines them, an empty list or None clears them."""

RELIABLE_RESPONSE_TRANSFORMS: Final = (
    "assistant_function_call_to_tool_calls",
    "assistant_tool_calls_object_to_array",
    "assistant_tool_calls_arguments_json_string_if_hash",
)
RELIABLE_TOOL_CALL_TRANSFORMS: Final = ("assistant_tool_calls_arguments_blank_to_empty_object",)
CONTENT_TAG_TRANSFORM: Final = "assistant_content_tool_call_tags_to_tool_calls"

Options = dict[str, object]


def merge(*parts: Mapping[str, object] | None) -> Options:
    """Merge options: later parts win, ``request_overrides`` merge deeply, lists of names unite.

    None instead of overrides changes nothing; instead of a list it clears the list.
    """
    merged: Options = {}
    for part in parts:
        for key, value in (part or {}).items():
            old = merged.get(key)
            if key in LIST_OPTIONS:
                merged[key] = merge_names(old, value)
            elif key == "request_overrides" and is_mapping(old) and (value is None or is_mapping(value)):
                merged[key] = deep_merge(old, value or {})
            else:
                merged[key] = value
    return merged


def default_tool_calling() -> Options:
    """Return the preset for every provider: tools may be used, and malformed calls are accepted."""
    return {
        "tool_use_mode": "relaxed",
        "fix_empty_final": True,
        "fix_empty_final_disable_tools": True,
        "fallback_retry_count": 0,
        "response_transforms": list(RELIABLE_RESPONSE_TRANSFORMS),
        "tool_call_transforms": list(RELIABLE_TOOL_CALL_TRANSFORMS),
    }


def provider_defaults(provider: str) -> Options:
    """Return the preset of a provider; empty for an unknown one."""
    name = provider_id(provider)
    transforms: list[str] = list(RELIABLE_RESPONSE_TRANSFORMS)
    options: Options = {
        "response_transforms": transforms,
        "tool_call_transforms": list(RELIABLE_TOOL_CALL_TRANSFORMS),
    }
    if name in ("openai", "openrouter", "volcano_engine"):
        return {**options, "request_overrides": {"parallel_tool_calls": False}}
    if name in ("vllm", "llama_cpp"):  # their parsers leave calls in the text
        transforms.append(CONTENT_TAG_TRANSFORM)
        # llama.cpp refuses tools if the model's template has no place for them: it is asked again without.
        return {**options, "fallback_retry_count": 1} if name == "llama_cpp" else options
    return {}


def model_defaults(model: str) -> Options:
    """Return the preset of a model; empty for one without quirks."""
    options: Options = {}
    if model == "minimax/minimax-m2-her":  # exactly: variants such as ":free" keep their tools
        options["tool_use_mode"] = "disabled"
    transforms: list[str] = []
    if model.startswith("google/gemini-"):
        transforms.append("assistant_tool_calls_signature_skip_validator_if_missing")
    if model.startswith("deepseek/") or "reasoner" in model:  # "reasoner" anywhere, with any maker
        transforms.append("assistant_tool_calls_reasoning_content_empty_if_missing")
    return {**options, "message_transforms": transforms} if transforms else options


def preset_for(provider: str, model: str) -> Options:
    """Return all defaults of a model, below the application's own options."""
    return merge(default_tool_calling(), provider_defaults(provider), model_defaults(model))
