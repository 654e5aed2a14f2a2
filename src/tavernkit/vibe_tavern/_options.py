"""The options of a ``RunnerConfig`` section by section, and how hand-written options are read.

Names, numbers and lists of names may be written in several spellings. Invalid and unknown options are refused, with
what to pass instead, so a misspelt option cannot pass unnoticed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NoReturn, TypedDict

from tavernkit._text.coerce import boolean, trim_blanks
from tavernkit._values import is_mapping, is_sequence, shown
from tavernkit.errors import ConfigError
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


_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")


def option_name(value: object) -> str:
    """Normalise a name: trimmed, lower case, ``_`` for ``-``."""
    return trim_blanks(str(value)).lower().replace("-", "_")


def integer(value: object) -> int | None:
    """Read a whole number: an integer, a float (truncated), or integer text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if value == value and abs(value) != float("inf") else None
    if isinstance(value, str):
        text = trim_blanks(value)
        return int(text) if _INTEGER.fullmatch(text) else None
    return None


def positive_integer(value: object, *, default: int | None = None) -> int | None:
    """Read a whole number above zero; anything else is the default."""
    number = integer(value)
    return number if number is not None and number > 0 else default


def positive_number(value: object, *, default: float | None = None) -> float | None:
    """Read a number above zero; anything else is the default."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return default
        if 0 < number < float("inf"):
            return number
    return default


def names(value: object) -> list[str] | None:
    """Read a list of names: a list, or text with commas. Trimmed, without blank ones; None stays None."""
    if value is None:
        return None
    parts: Iterable[object] = value.split(",") if isinstance(value, str) else value if is_sequence(value) else (value,)
    return [name for name in (trim_blanks(str(part)) for part in parts if part is not None) if name]


def merge_names(left: object, right: object) -> object:
    """Merge lists of names without duplicates; None and an empty list clear.

    Values that are not lists of names are kept, and refused when the options are read.
    """
    if not _are_names(right):
        return right
    old, new = names(left), names(right)
    return list(dict.fromkeys([*(old or ()), *new])) if new else []


def section(value: object, name: str) -> Mapping[str, object]:
    """Return a configuration section: a mapping, or None."""
    if value is None:
        return {}
    if not is_mapping(value):
        raise ConfigError(f"{name} must be a mapping, not {type(value).__name__}", code="SECTION_NOT_A_MAPPING")
    return value


class OptionReader:
    """Reads one section of options; None means that an option is not given.

    ``kind`` is the typed dictionary that lists the section's options. Numbers and booleans may be text; numbers that
    are out of range count as not given.
    """

    def __init__(self, value: object, name: str, kind: type) -> None:
        self._options = section(value, name)
        self._name = name
        for key in self._options:
            if key not in kind.__annotations__:
                self._refuse_unknown(str(key), kind.__annotations__)

    def get(self, key: str) -> object:
        """Return an option unchanged."""
        return self._options.get(key)

    def flag(self, key: str, *, default: bool) -> bool:
        """Read yes or no."""
        value = self.get(key)
        if value is None or value == "":
            return default
        read = boolean(value, None)
        return self._refuse(key, "True or False") if read is None else read

    def integer(self, key: str) -> int | None:
        """Read a whole number."""
        value = self.get(key)
        read = integer(value)
        if read is None and not is_blank(value):
            self._refuse(key, "a whole number")
        return read

    def positive_integer(self, key: str) -> int | None:
        """Read a whole number above zero."""
        read = self.integer(key)
        return read if read is not None and read > 0 else None

    def positive_number(self, key: str) -> float | None:
        """Read a number above zero."""
        value = self.get(key)
        if is_blank(value):
            return None
        if not isinstance(value, (int, float, str)) or isinstance(value, bool):
            self._refuse(key, "a number")
        try:
            float(value)
        except (ValueError, OverflowError):
            self._refuse(key, "a number")
        return positive_number(value)

    def text(self, key: str) -> str | None:
        """Read a text, trimmed; a blank one counts as not given."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._refuse(key, "a text")
        return trim_blanks(value) or None

    def choice(self, key: str, known: tuple[str, ...], *, default: str) -> str:
        """Read one of a few names; the error's code is the option's name in capitals."""
        value = self.get(key)
        if is_blank(value):
            return default
        name = option_name(value) if isinstance(value, str) else ""
        if name not in known:
            near = suggestion(name, known)
            message = f"{key} must be one of {', '.join(known)}, not {shown(value)}{near}"
            raise ConfigError(message, code=key.upper())
        return name

    def names(self, key: str) -> tuple[str, ...]:
        """Read a list of names, or text with commas."""
        value = self.get(key)
        if not _are_names(value):
            self._refuse(key, "a list of names, such as ['name']")
        return tuple(names(value) or ())

    def mapping(self, key: str) -> Mapping[str, object]:
        """Read a mapping."""
        return section(self.get(key), f"{self._name}.{key}")

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        given = self.get(key)
        message = f"{self._name}.{key} must be {wanted}, not {type(given).__name__} {shown(given)}"
        raise ConfigError(message, code="INVALID_OPTION")

    def _refuse_unknown(self, key: str, known: Iterable[str]) -> NoReturn:
        known = sorted(known)
        near = suggestion(key, known) or f"; it has {', '.join(known)}"
        raise ConfigError(f"{self._name} has no option {key!r}{near}", code="UNKNOWN_OPTION")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" suggestion for the end of a message, or an empty text."""
    near = difflib.get_close_matches(option_name(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _are_names(value: object) -> bool:
    if value is None or isinstance(value, str):
        return True
    return is_sequence(value) and all(isinstance(each, str) for each in value)


def is_blank(value: object) -> bool:
    """Return True if a value is None or blank text."""
    return value is None or (isinstance(value, str) and not trim_blanks(value))
