"""Options of tool calling, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast

from tavernkit.errors import ConfigError, log_warning
from tavernkit.text.blank import trim_blanks
from tavernkit.text.coerce import boolean
from tavernkit.values import EMPTY_OBJECT, FrozenObject, freeze, freeze_object, is_mapping
from tavernkit.vibe_tavern.limits import MAX_TOOL_ARGS_BYTES, MAX_TOOL_OUTPUT_BYTES, TOOL_TIMEOUT_SECONDS
from tavernkit.vibe_tavern.options import (
    integer,
    names,
    option_name,
    positive_integer,
    positive_number,
    section,
)
from tavernkit.vibe_tavern.whitespace import is_blank

ToolUseMode = Literal["enforced", "relaxed", "disabled"]
ToolFailurePolicy = Literal["fatal", "tolerated"]
ToolDispatch = Literal["sequential", "parallel"]
ToolChoice: TypeAlias = "str | FrozenObject"

TOOL_USE_MODES: Final = ("enforced", "relaxed", "disabled")
TOOL_FAILURE_POLICIES: Final = ("fatal", "tolerated")
TOOL_DISPATCHES: Final = ("sequential", "parallel")
RESERVED_OVERRIDES: Final = frozenset(("model", "messages", "tools", "tool_choice", "response_format"))
"""Keys that request overrides cannot set; they are left out, with a warning."""

FIX_EMPTY_FINAL_TEXT: Final = "Now write your final answer for the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallingConfig:
    """How tools are offered, run and guarded. Made with :meth:`from_mapping` from a context's ``tool_calling``.

    ``enforced`` needs at least one tool call, ``disabled`` never sends tools. ``tool_failure_policy`` counts only when
    enforced: ``fatal`` fails a run in which a tool's last result is an error, ``tolerated`` wants one success.
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
        """Read options; unknown modes and policies are errors, numbers that cannot be read are the default."""
        options = section(value, "tool_calling")
        text = options.get("fix_empty_final_user_text")
        overrides = section(options.get("request_overrides"), "tool_calling.request_overrides")
        return cls(
            tool_use_mode=cast(
                "ToolUseMode", _choice(options, "tool_use_mode", TOOL_USE_MODES, "relaxed", "TOOL_USE_MODE")
            ),
            tool_failure_policy=cast(
                "ToolFailurePolicy",
                _choice(options, "tool_failure_policy", TOOL_FAILURE_POLICIES, "tolerated", "TOOL_FAILURE_POLICY"),
            ),
            tool_allowlist=_optional_names(options.get("tool_allowlist")),
            tool_denylist=_optional_names(options.get("tool_denylist")),
            fix_empty_final=boolean(options.get("fix_empty_final"), default=True),
            fix_empty_final_user_text=FIX_EMPTY_FINAL_TEXT if is_blank(text) else trim_blanks(str(text)),
            fix_empty_final_disable_tools=boolean(options.get("fix_empty_final_disable_tools"), default=True),
            fallback_retry_count=max(integer(options.get("fallback_retry_count")) or 0, 0),
            max_tool_args_bytes=positive_integer(options.get("max_tool_args_bytes")) or MAX_TOOL_ARGS_BYTES,
            max_tool_output_bytes=positive_integer(options.get("max_tool_output_bytes")) or MAX_TOOL_OUTPUT_BYTES,
            max_tool_calls_per_turn=positive_integer(options.get("max_tool_calls_per_turn")),
            max_total_tokens=positive_integer(options.get("max_total_tokens")),
            tool_timeout_seconds=positive_number(options.get("tool_timeout_seconds")) or TOOL_TIMEOUT_SECONDS,
            tool_dispatch=cast(
                "ToolDispatch", _choice(options, "tool_dispatch", TOOL_DISPATCHES, "sequential", "TOOL_DISPATCH")
            ),
            validate_tool_arguments=boolean(options.get("validate_tool_arguments"), default=False),
            tool_choice=_tool_choice(options.get("tool_choice")),
            message_transforms=tuple(names(options.get("message_transforms")) or ()),
            tool_transforms=tuple(names(options.get("tool_transforms")) or ()),
            response_transforms=tuple(names(options.get("response_transforms")) or ()),
            tool_call_transforms=tuple(names(options.get("tool_call_transforms")) or ()),
            tool_result_transforms=tuple(names(options.get("tool_result_transforms")) or ()),
            request_overrides=_without_reserved(overrides),
        )

    @property
    def tools_enabled(self) -> bool:
        """Whether tools are sent at all."""
        return self.tool_use_mode != "disabled"


def _choice(options: Mapping[str, object], key: str, known: tuple[str, ...], default: str, code: str) -> str:
    given = options.get(key)
    if is_blank(given):
        return default
    name = option_name(given)
    if name not in known:
        raise ConfigError(f"{key} must be one of {', '.join(known)}, not {given!r}", code=code)
    return name


def _without_reserved(overrides: Mapping[str, object]) -> FrozenObject:
    reserved = sorted(RESERVED_OVERRIDES.intersection(overrides))
    if reserved:
        log_warning(f"tool_calling.request_overrides cannot set {', '.join(reserved)}: left out")
    return freeze_object({key: freeze(item) for key, item in overrides.items() if key not in RESERVED_OVERRIDES})


def _tool_choice(value: object) -> ToolChoice:
    if is_mapping(value):
        return freeze_object(value)
    return "auto" if is_blank(value) else str(value)


def _optional_names(value: object) -> tuple[str, ...] | None:
    listed = names(value)
    return tuple(listed) if listed else None
