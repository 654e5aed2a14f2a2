"""Output tags in answers: their options, and the processing of a text (find tags, sanitize, apply rules)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import boolean, language_tag, trim_blanks
from tavernkit._text.verbatim_masker import DEFAULT_ESCAPE_HATCH, EscapeHatch, mask, unmask
from tavernkit._values import FrozenObject, JsonObject, LRUCache, freeze_object, is_mapping, is_sequence
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.vibe_tavern._options import (
    EscapeHatchOptions,
    OptionReader,
    OutputTagsOptions,
    TagRuleOptions,
    is_blank,
    option_name,
)
from tavernkit.vibe_tavern._options import TagAction as Action

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


_ATTRIBUTE = re.compile(r"""([^\s"'=<>/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""", re.ASCII)
_PATTERNS_KEPT = 256
_heads: LRUCache[str, re.Pattern[str]] = LRUCache(_PATTERNS_KEPT)


@dataclass(frozen=True, slots=True)
class FoundTag:
    """One tag in a text."""

    start: int
    end: int
    raw: str
    closing: bool
    attributes: str


def find_tags(text: str, name: str) -> Iterator[FoundTag]:
    """Find opening and closing tags with a name, in any case and spacing."""
    head = _heads.get_or_make(
        name, lambda: re.compile(rf"<[ \t\r\n\f\v]*+(/?)[ \t\r\n\f\v]*+{re.escape(name)}\b", re.IGNORECASE)
    )
    position = 0
    while (match := head.search(text, position)) is not None:
        end = text.find(">", match.end())  # even one inside the quotes of an attribute
        if end < 0:
            return
        # `<x/>` is an opening tag like any other, as in HTML.
        attributes = text[match.end() : end].strip().removesuffix("/").rstrip()
        position = end + 1
        yield FoundTag(
            start=match.start(),
            end=position,
            raw=text[match.start() : position],
            closing=bool(match.group(1)),
            attributes=attributes,
        )


def read_attributes(text: str) -> list[tuple[str, str | None]]:
    """Split a tag's content into names and values (with their quotes); values may be missing."""
    return [(match.group(1), match.group(2)) for match in _ATTRIBUTE.finditer(text)]


def write_tag(name: str, attributes: list[tuple[str, str | None]]) -> str:
    """Write an opening tag."""
    written = [key if value is None else f"{key}={value}" for key, value in attributes]
    return f"<{' '.join([name, *written])}>"


LANG_SPANS: Final = "lang_spans"
"""The built-in sanitizer."""


@dataclass(frozen=True, slots=True)
class TagWarning:
    """A problem that was found in the text; ``value`` is the text or name in question."""

    code: str
    value: str | None = None
    name: str | None = None

    def to_dict(self) -> JsonObject:
        """The warning as JSON."""
        return {key: text for key in ("code", "value", "name") if (text := getattr(self, key)) is not None}

    def __str__(self) -> str:
        about = self.value if self.value is not None else self.name
        return f"output tags: {self.code}" + (f" ({about})" if about is not None else "")


Sanitizer: TypeAlias = Callable[[str, FrozenObject], tuple[str, Sequence[TagWarning]]]
"""Gets the text (code and templates masked) and its options; returns the text and warnings."""


class SanitizerRegistry:
    """Sanitizers by name."""

    def __init__(self, sanitizers: Mapping[str, Sanitizer] | None = None) -> None:
        self._sanitizers = dict(sanitizers or {})

    def register(self, name: str, sanitizer: Sanitizer) -> None:
        """Add a sanitizer; it replaces one with the same name."""
        if not option_name(name) or not callable(sanitizer):
            raise ConfigError("a sanitizer needs a name and a callable", code="INVALID_SANITIZER")
        self._sanitizers = {**self._sanitizers, option_name(name): sanitizer}

    def get(self, name: str) -> Sanitizer | None:
        """Find a sanitizer."""
        return self._sanitizers.get(option_name(name))

    def copy(self) -> SanitizerRegistry:
        """An independent registry with the same sanitizers."""
        return SanitizerRegistry(self._sanitizers)


def lang_spans(text: str, options: FrozenObject) -> tuple[str, Sequence[TagWarning]]:
    """Make ``<lang code="…">`` spans valid: codes normalised, spans closed, stray closings removed.

    With an unknown ``on_invalid_code`` the text stays unchanged.
    """
    treatment = on_invalid_code(options)
    if treatment is None:
        return text, (TagWarning("LANG_SPAN_BAD_OPTION", str(options.get("on_invalid_code"))),)
    return _LangSpans(options, treatment).run(text)


def on_invalid_code(options: FrozenObject) -> str | None:
    """Return what ``lang_spans`` does with a span with an invalid code; None if the option is invalid."""
    given = options.get("on_invalid_code")
    name = "strip" if given is None else option_name(given)
    return name if name in ("strip", "keep", "drop") else None


class _LangSpans:
    """Tracks what to do with the closing tag of each open span: write it, skip it, or drop the span."""

    def __init__(self, options: FrozenObject, on_invalid: str) -> None:
        self._on_invalid = on_invalid
        self._validate = boolean(options.get("validate_code"), default=True)
        self._auto_close = boolean(options.get("auto_close"), default=True)
        self._warnings: dict[TagWarning, None] = {}
        self._open: list[str] = []
        self._dropping = 0

    def run(self, text: str) -> tuple[str, Sequence[TagWarning]]:
        kept: list[str] = []
        position = 0
        for tag in find_tags(text, "lang"):
            if not self._dropping:
                kept.append(text[position : tag.start])
            position = tag.end
            written = self._close() if tag.closing else self._open_tag(tag)
            if not self._dropping:
                kept.append(written)
        if not self._dropping:
            kept.append(text[position:])
        kept.append(self._end())
        return "".join(kept), tuple(self._warnings)

    def _open_tag(self, tag: FoundTag) -> str:
        if self._dropping:  # counted, so that its closing tag does not end the dropped span
            self._open.append("strip")
            return ""
        treatment, written = self._judge(tag)
        self._open.append(treatment)
        self._dropping += treatment == "drop"
        return written

    def _judge(self, tag: FoundTag) -> tuple[str, str]:
        attributes = read_attributes(tag.attributes)
        code = next((value.strip("\"'") for key, value in attributes if key.lower() == "code" and value), None)
        normal = None if code is None else language_tag(code)
        if normal is None and self._validate:
            if is_blank(code):
                self._warn("LANG_SPAN_CODE_MISSING")
            else:
                self._warn("LANG_SPAN_CODE_INVALID", code)
            return ("write", tag.raw) if self._on_invalid == "keep" else (self._on_invalid, "")
        if code is None:
            return "write", tag.raw
        rebuilt = [
            ("code", f'"{normal or code}"') if key.lower() == "code" else (key, value) for key, value in attributes
        ]
        return "write", write_tag("lang", rebuilt)

    def _close(self) -> str:
        if not self._open:
            self._warn("LANG_SPAN_STRAY_CLOSE")
            return ""
        treatment = self._open.pop()
        self._dropping -= treatment == "drop"
        return "</lang>" if treatment == "write" else ""

    def _end(self) -> str:
        unclosed = self._open.count("write")
        if unclosed and not self._auto_close:
            self._warn("LANG_SPAN_UNCLOSED")
            return ""
        return "</lang>" * unclosed

    def _warn(self, code: str, value: str | None = None) -> None:
        self._warnings[TagWarning(code, value)] = None


default_sanitizers = SanitizerRegistry({LANG_SPANS: lang_spans})
"""The default registry."""

register_sanitizer = default_sanitizers.register


def apply_rule(text: str, rule: TagRule) -> str:
    """Strip, drop or rename a tag. Stray closing tags are removed; unclosed tags are closed at the end."""
    kept: list[str] = []
    depth = position = 0
    for tag in find_tags(text, rule.tag):
        if not (rule.action == "drop" and depth):
            kept.append(text[position : tag.start])
        position = tag.end
        if tag.closing:
            if depth and rule.action == "rename":
                kept.append(f"</{rule.to}>")
            depth = max(depth - 1, 0)
            continue
        if rule.action == "rename":
            kept.append(_rename(rule, tag.attributes))
        depth += 1
    if not (rule.action == "drop" and depth):  # an unclosed tag drops the rest of the text
        kept.append(text[position:])
    if rule.action == "rename":
        kept.append(f"</{rule.to}>" * depth)
    return "".join(kept)


def _rename(rule: TagRule, attributes: str) -> str:
    # Attributes without a value are lost.
    named = [(key, value) for key, value in read_attributes(attributes) if value is not None]
    return write_tag(rule.to, [(rule.attrs.get(key.lower(), key), value) for key, value in named])


@dataclass(frozen=True, slots=True)
class TaggedText:
    """Processed text with its warnings."""

    text: str
    warnings: Sequence[TagWarning] = ()


def transform(text: str, config: OutputTagsConfig, *, sanitizers: SanitizerRegistry = default_sanitizers) -> TaggedText:
    """Apply output tags to a whole assistant text."""
    if not config.enabled or not has_work(text, config):
        return TaggedText(text)
    masked, placeholders = mask(text, config.escape_hatch)
    warnings: list[TagWarning] = []
    for name, options in config.enabled_sanitizers:
        sanitizer = sanitizers.get(name)
        if sanitizer is None:
            warnings.append(TagWarning("SANITIZER_UNKNOWN", name=name))
            continue
        try:
            masked, found = sanitizer(masked, options)
        except Exception as error:  # noqa: BLE001  # a sanitizer's bug must not cost the answer
            warnings.append(TagWarning("SANITIZER_FAILED", value=f"{type(error).__name__}: {error}", name=name))
        else:
            warnings.extend(found)
    for rule in config.rules:
        masked = apply_rule(masked, rule)
    _emit(warnings, config)
    return TaggedText(unmask(masked, placeholders), tuple(warnings))


def has_work(text: str, config: OutputTagsConfig) -> bool:
    """Return True if a text may be changed or warned about: rules and our own sanitizer only affect tags."""
    sanitizers = config.enabled_sanitizers
    if any(name != LANG_SPANS or on_invalid_code(options) is None for name, options in sanitizers):
        return True
    if "<" not in text:
        return False
    return bool(config.rules or sanitizers) or (config.escape_hatch.enabled and "\\<" in text)


def _emit(warnings: Sequence[TagWarning], config: OutputTagsConfig) -> None:
    warn = config.warner or (log_warning if config.warn else None)
    if warn is not None:
        for warning in warnings:
            warn(str(warning))
