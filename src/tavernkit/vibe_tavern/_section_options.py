"""The options of a ``RunnerConfig``, section by section, for type checkers.

A key that is not listed here is refused, so a misspelt option cannot pass unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from tavernkit.prompt._context import Estimator

ToolUseMode = Literal["enforced", "relaxed", "disabled"]
ToolFailurePolicy = Literal["fatal", "tolerated"]
ToolDispatch = Literal["sequential", "parallel"]
DirectivesMode = Literal["json_schema", "json_object", "prompt_only"]
TagAction = Literal["strip", "drop", "rename"]


class ToolCallingOptions(TypedDict, total=False):
    """The section ``tool_calling``: how tools are offered, run and guarded."""

    tool_use_mode: ToolUseMode
    tool_failure_policy: ToolFailurePolicy
    tool_allowlist: Sequence[str] | None
    tool_denylist: Sequence[str] | None
    fix_empty_final: bool
    fix_empty_final_user_text: str | None
    fix_empty_final_disable_tools: bool
    fallback_retry_count: int
    max_tool_args_bytes: int
    max_tool_output_bytes: int
    max_tool_calls_per_turn: int | None
    max_total_tokens: int | None
    tool_timeout_seconds: float
    tool_dispatch: ToolDispatch
    validate_tool_arguments: bool
    tool_choice: str | Mapping[str, object] | None
    message_transforms: Sequence[str] | None
    tool_transforms: Sequence[str] | None
    response_transforms: Sequence[str] | None
    tool_call_transforms: Sequence[str] | None
    tool_result_transforms: Sequence[str] | None
    request_overrides: Mapping[str, object]


class DirectivesOptions(TypedDict, total=False):
    """The section ``directives``: how structured answers are requested and repaired."""

    modes: Sequence[DirectivesMode]
    repair_retry_count: int
    json_repair: bool
    request_overrides: Mapping[str, object]
    structured_request_overrides: Mapping[str, object]
    prompt_only_request_overrides: Mapping[str, object]
    message_transforms: Sequence[str] | None
    response_transforms: Sequence[str] | None


class LanguagePolicyOptions(TypedDict, total=False):
    """The section ``language_policy``: the language of the answer."""

    enabled: bool
    target_lang: str
    style_hint: str | None
    special_tags: Sequence[str]
    supported_languages: Sequence[str]
    policy_text_builder: Callable[[str, str | None, Sequence[str]], str] | None


class TagRuleOptions(TypedDict, total=False):
    """One rule of the section ``output_tags``."""

    tag: str
    action: TagAction
    to: str
    attrs: Mapping[str, str]


class EscapeHatchOptions(TypedDict, total=False):
    """How to keep a tag as text in an answer: with a backslash before its ``<``."""

    enabled: bool
    mode: Literal["html_entity", "literal", "keep_backslash"]


class OutputTagsOptions(TypedDict, total=False):
    """The section ``output_tags``: how tags in the answer are processed."""

    enabled: bool
    escape_hatch: EscapeHatchOptions
    rules: Sequence[TagRuleOptions]
    sanitizers: Mapping[str, Mapping[str, object]]
    warn: bool
    warner: Callable[[str], None] | None


class TokenEstimationOptions(TypedDict, total=False):
    """The section ``token_estimation``: how the tokens of a prompt are counted, and for which model."""

    model_hint: str | None
    token_estimator: Estimator
    registry: Mapping[str, object]


class ToggleOptions(TypedDict, total=False):
    """The section ``toggles``: features that are off by default."""

    expand_user_input_macros: bool
