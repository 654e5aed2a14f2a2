"""Applies one tag rule to a text."""

from __future__ import annotations

from tavernkit.vibe_tavern.output_tags.config import TagRule
from tavernkit.vibe_tavern.output_tags.markup import find_tags, read_attributes, write_tag


def apply_rule(text: str, rule: TagRule) -> str:
    """Strip, drop or rename a tag. Stray closing tags go; what is never closed is closed at the end."""
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
            kept.append(_renamed(rule, tag.attributes))
        depth += 1
    if not (rule.action == "drop" and depth):
        kept.append(text[position:])
    if rule.action == "rename":
        kept.append(f"</{rule.to}>" * depth)
    return "".join(kept)


def _renamed(rule: TagRule, attributes: str) -> str:
    named = [(key, value) for key, value in read_attributes(attributes) if value is not None]
    return write_tag(rule.to, [(rule.attrs.get(key.lower(), key), value) for key, value in named])
