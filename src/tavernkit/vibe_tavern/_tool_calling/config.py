"""Options of tool calling, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze, freeze_object, is_mapping
from tavernkit.errors import log_warning
from tavernkit.vibe_tavern._limits import MAX_TOOL_ARGS_BYTES, MAX_TOOL_OUTPUT_BYTES, TOOL_TIMEOUT_SECONDS
from tavernkit.vibe_tavern._options import OptionReader
from tavernkit.vibe_tavern._section_options import ToolCallingOptions, ToolDispatch, ToolFailurePolicy, ToolUseMode

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
