"""The processing of a text: mask, sanitize, apply rules, unmask."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.verbatim_masker import mask, unmask
from tavernkit.errors import log_warning
from tavernkit.vibe_tavern._output_tags.config import OutputTagsConfig, TagRule
from tavernkit.vibe_tavern._output_tags.markup import find_tags, read_attributes, write_tag
from tavernkit.vibe_tavern._output_tags.sanitizers import (
    LANG_SPANS,
    SanitizerRegistry,
    TagWarning,
    default_sanitizers,
    on_invalid_code,
)


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
    if not (rule.action == "drop" and depth):
        kept.append(text[position:])
    if rule.action == "rename":
        kept.append(f"</{rule.to}>" * depth)
    return "".join(kept)


def _rename(rule: TagRule, attributes: str) -> str:
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
