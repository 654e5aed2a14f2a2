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
    """``"enforced"``: a run without a tool call raises ``ToolUseError``. ``"disabled"``: no tools are sent."""
    tool_failure_policy: ToolFailurePolicy
    """Enforced only. ``"tolerated"``: one success is enough. ``"fatal"``: the last result of each tool must be one."""
    tool_allowlist: Sequence[str] | None
    """Names of the tools that may be used; by default all."""
    tool_denylist: Sequence[str] | None
    """Names of the tools that may not be used."""
    fix_empty_final: bool
    """Whether to ask once more if the answer after the tools is empty."""
    fix_empty_final_user_text: str | None
    """What is asked then."""
    fix_empty_final_disable_tools: bool
    """Whether that request has no tools."""
    fallback_retry_count: int
    """Relaxed only: how many requests without tools follow an HTTP error."""
    max_tool_args_bytes: int
    """Larger arguments are refused, and the model is told."""
    max_tool_output_bytes: int
    """Larger results are refused, and the model is told."""
    max_tool_calls_per_turn: int | None
    """More calls in one answer are dropped."""
    max_total_tokens: int | None
    """A run that used more raises ``ToolLoopLimitError``."""
    tool_timeout_seconds: float
    """How long one tool may take."""
    tool_dispatch: ToolDispatch
    """``"parallel"`` runs the calls of one turn at the same time."""
    validate_tool_arguments: bool
    """Whether arguments are checked against the tool's schema before it runs."""
    tool_choice: str | Mapping[str, object] | None
    """Sent with the tools: a text or an object."""
    message_transforms: Sequence[str] | None
    """Names of transforms of the messages that are sent. Presets add some."""
    tool_transforms: Sequence[str] | None
    """The same for tools."""
    response_transforms: Sequence[str] | None
    """The same for responses."""
    tool_call_transforms: Sequence[str] | None
    """The same for tool calls."""
    tool_result_transforms: Sequence[str] | None
    """The same for tool results."""
    request_overrides: Mapping[str, object]
    """Keys of the request body, merged deeply."""


class DirectivesOptions(TypedDict, total=False):
    """The section ``directives``: how structured answers are requested and repaired."""

    modes: Sequence[DirectivesMode]
    """The ways of asking, in the order in which they are tried."""
    repair_retry_count: int
    """How often to ask again for an answer that cannot be used."""
    json_repair: bool
    """Whether answers that are nearly JSON are accepted."""
    request_overrides: Mapping[str, object]
    """Keys of the request body in every mode."""
    structured_request_overrides: Mapping[str, object]
    """The same for ``json_schema`` and ``json_object`` only."""
    prompt_only_request_overrides: Mapping[str, object]
    """The same for ``prompt_only`` only."""
    message_transforms: Sequence[str] | None
    """Names of transforms of the messages that are sent."""
    response_transforms: Sequence[str] | None
    """Names of transforms of responses."""


class LanguagePolicyOptions(TypedDict, total=False):
    """The section ``language_policy``: the language of the answer."""

    enabled: bool
    """Whether to ask for one language."""
    target_lang: str
    """The language, such as ``ja-JP``; required when enabled."""
    style_hint: str | None
    """How to write, such as ``casual``."""
    special_tags: Sequence[str]
    """Tags whose content stays as it is. With ``lang``, the model is also told about ``<lang code="…">``."""
    supported_languages: Sequence[str]
    """The languages that may be asked for. Others give a warning and no instruction."""
    policy_text_builder: Callable[[str, str | None, Sequence[str]], str] | None
    """A function that writes the instruction."""


class TagRuleOptions(TypedDict, total=False):
    """One rule of the section ``output_tags``."""

    tag: str
    """The name of the tag."""
    action: TagAction
    """``strip`` removes the tags, ``drop`` also what is between them, ``rename`` changes their name."""
    to: str
    """With ``rename``: the new name."""
    attrs: Mapping[str, str]
    """With ``rename``: new names of attributes."""


class EscapeHatchOptions(TypedDict, total=False):
    """How to keep a tag as text in an answer: with a backslash before its ``<``."""

    enabled: bool
    """Whether a backslash before ``<`` keeps a tag as text; on by default."""
    mode: Literal["html_entity", "literal", "keep_backslash"]
    """How its ``<`` is written: ``html_entity`` (``&lt;``, the default), ``literal`` or ``keep_backslash``."""


class OutputTagsOptions(TypedDict, total=False):
    """The section ``output_tags``: how tags in the answer are processed."""

    enabled: bool
    """Whether the tags of answers are processed."""
    escape_hatch: EscapeHatchOptions
    """How a backslash before ``<`` keeps a tag as text (``EscapeHatchOptions``); on by default."""
    rules: Sequence[TagRuleOptions]
    """What happens to tags, one rule after another (``TagRuleOptions``)."""
    sanitizers: Mapping[str, Mapping[str, object]]
    """Repairs by name, such as ``{"lang_spans": {"enabled": True}}``."""
    warn: bool
    """Whether problems with tags are logged."""
    warner: Callable[[str], None] | None
    """A function that is called with each warning."""


class TokenEstimationOptions(TypedDict, total=False):
    """The section ``token_estimation``: how the tokens of a prompt are counted, and for which model."""

    model_hint: str | None
    """The model to count tokens for, if it is not the request's."""
    token_estimator: Estimator
    """An object with ``estimate(text, model_hint)``."""
    registry: Mapping[str, object]
    """Models and their tokenizer files."""


class ToggleOptions(TypedDict, total=False):
    """The section ``toggles``: features that are off by default."""

    expand_user_input_macros: bool
    """Whether ``preprocess_user_input`` renders what users type."""
