"""Options of output tags, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import boolean, trim_blanks
from tavernkit._text.verbatim_masker import DEFAULT_ESCAPE_HATCH, EscapeHatch
from tavernkit._values import FrozenObject, freeze_object, is_mapping, is_sequence
from tavernkit.errors import ConfigError, Warn
from tavernkit.vibe_tavern._options import OptionReader, option_name
from tavernkit.vibe_tavern._section_options import EscapeHatchOptions, OutputTagsOptions, TagRuleOptions
from tavernkit.vibe_tavern._section_options import TagAction as Action

ACTIONS: Final = ("strip", "drop", "rename")


@dataclass(frozen=True, slots=True)
class TagRule:
    """A rule for one tag: ``strip`` removes it, ``drop`` also removes its content, ``rename`` renames it.

    ``attrs`` renames attributes (names compared without case).
    """

    tag: str
    action: Action
    to: str = ""
    attrs: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    @classmethod
    def from_mapping(cls, value: object) -> TagRule:
        """Read ``{tag, action, to, attrs}``."""
        if not is_mapping(value):
            raise ConfigError(f"an output tag rule is a mapping, not {value!r}", code="OUTPUT_TAGS_RULE_NOT_A_MAPPING")
        OptionReader(value, "a rule of output_tags", TagRuleOptions)
        tag, action, to = (_text(value.get(key)) for key in ("tag", "action", "to"))
        if not tag:
            raise ConfigError("an output tag rule needs a tag", code="OUTPUT_TAGS_RULE_TAG")
        if option_name(action) not in ACTIONS:
            raise ConfigError(
                f"the action for <{tag}> must be one of {', '.join(ACTIONS)}, not {action!r}",
                code="OUTPUT_TAGS_RULE_ACTION",
            )
        if option_name(action) == "rename" and not to:
            raise ConfigError(f"renaming <{tag}> needs the new name as 'to'", code="OUTPUT_TAGS_RULE_TO")
        attrs = value.get("attrs")
        if attrs is not None and not is_mapping(attrs):
            raise ConfigError(f"attrs of the rule for <{tag}> must be a mapping", code="OUTPUT_TAGS_RULE_ATTRS")
        renamed = {_text(old).lower(): _text(new) for old, new in (attrs or {}).items()}
        return cls(tag, cast("Action", option_name(action)), to, renamed)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTagsConfig:
    r"""How assistant text is processed. Made with ``from_mapping()`` from a context's ``output_tags``.

    Code and template syntax are never touched; ``\<`` keeps a tag as text (``escape_hatch``). Warnings are in every
    result; ``warn`` also logs them, ``warner`` is called with each.
    """

    enabled: bool = False
    escape_hatch: EscapeHatch = DEFAULT_ESCAPE_HATCH
    rules: tuple[TagRule, ...] = ()
    sanitizers: Mapping[str, FrozenObject] = field(default_factory=lambda: EMPTY_SANITIZERS)
    warn: bool = False
    warner: Warn | None = None

    @classmethod
    def from_mapping(cls, value: object) -> OutputTagsConfig:
        """Read options; invalid parts are errors."""
        if value is None:
            return cls()
        if not is_mapping(value):
            raise ConfigError(f"output_tags must be a mapping, not {value!r}", code="OUTPUT_TAGS_NOT_A_MAPPING")
        options = OptionReader(value, "output_tags", OutputTagsOptions)
        warner, hatch = options.get("warner"), options.get("escape_hatch")
        if warner is not None and not callable(warner):
            raise ConfigError("output_tags.warner must be callable", code="OUTPUT_TAGS_WARNER")
        if is_mapping(hatch):
            OptionReader(hatch, "output_tags.escape_hatch", EscapeHatchOptions)
        return cls(
            enabled=options.flag("enabled", default=False),
            escape_hatch=DEFAULT_ESCAPE_HATCH if hatch is None else EscapeHatch.from_mapping(hatch),
            rules=_rules(options.get("rules")),
            sanitizers=_sanitizers(options.get("sanitizers")),
            warn=options.flag("warn", default=False),
            warner=cast("Warn | None", warner),
        )

    @property
    def enabled_sanitizers(self) -> tuple[tuple[str, FrozenObject], ...]:
        """The sanitizers that are switched on, in order."""
        return tuple(
            (name, options)
            for name, options in self.sanitizers.items()
            if boolean(options.get("enabled"), default=False)
        )


EMPTY_SANITIZERS: Mapping[str, FrozenObject] = {}


def _rules(value: object) -> tuple[TagRule, ...]:
    if value is None:
        return ()
    if not is_sequence(value):
        raise ConfigError("output_tags.rules must be a list", code="OUTPUT_TAGS_RULES_NOT_A_LIST")
    return tuple(TagRule.from_mapping(rule) for rule in value)


def _sanitizers(value: object) -> Mapping[str, FrozenObject]:
    if value is None:
        return EMPTY_SANITIZERS
    if not is_mapping(value):
        raise ConfigError("output_tags.sanitizers must be a mapping", code="OUTPUT_TAGS_SANITIZERS_NOT_A_MAPPING")
    read: dict[str, FrozenObject] = {}
    for name, options in value.items():
        if not is_mapping(options):
            raise ConfigError(f"options of sanitizer {name!r} must be a mapping", code="OUTPUT_TAGS_SANITIZER_OPTIONS")
        read[option_name(name)] = freeze_object(options)
    return read


def _text(value: object) -> str:
    return "" if value is None else trim_blanks(str(value))
