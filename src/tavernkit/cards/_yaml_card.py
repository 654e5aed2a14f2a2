"""YAML cards: the short form of text-generation programs (name, context, greeting), or a whole card as YAML.

The text is read by YAML 1.2's core rules, as other card programs do: ``yes`` is a text, and only JSON's values exist.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import MAX_DIGITS, decode_text
from tavernkit.cards._limits import Limits
from tavernkit.cards.errors import YamlError
from tavernkit.errors import LimitExceededError, Warn

if TYPE_CHECKING:
    import yaml

SHORT_FORM: Mapping[str, str] = {"name": "name", "context": "description", "greeting": "first_mes"}
"""The keys of the short form and what they are in a card."""

_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|(false|False|FALSE))\Z")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 _.,'-]*(?<! )\Z")
_BLOCK = re.compile("[^\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff]*\\Z")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True)
class _Node:
    value: Json
    key: str | None = None
    """The key whose value comes next, in a mapping."""
    has_key: bool = False
    anchor: str | None = None
    count: int = 1
    depth: int = 1


@dataclass(slots=True)
class _Builder:
    """Builds JSON values from YAML's events, counting what aliases would repeat."""

    limits: Limits
    warn: Warn
    keep_infinity: bool
    stack: list[_Node] = field(default_factory=list["_Node"])
    anchors: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    total: int = 0
    result: Json = None

    def open(self, node: _Node) -> None:
        if len(self.stack) >= self.limits.max_json_depth:
            self.too_deep()
        self.count(1)
        self.stack.append(node)

    def close(self) -> None:
        node = self.stack.pop()
        self.add(node)

    def leaf(self, value: Json, anchor: str | None) -> None:
        self.count(1)
        self.add(_Node(value, anchor=anchor))

    def alias(self, anchor: str) -> None:
        node = self.anchors.get(anchor)
        if node is None:
            raise YamlError(f"YAML: the alias {anchor!r} refers to a value that is missing or not complete")
        self.count(node.count)
        if len(self.stack) + node.depth > self.limits.max_json_depth:
            self.too_deep()
        self.add(_Node(node.value, count=node.count, depth=node.depth))

    def add(self, node: _Node) -> None:
        if node.anchor:
            self.anchors[node.anchor] = node
        if not self.stack:
            self.result = node.value
            return
        parent = self.stack[-1]
        parent.count += node.count
        parent.depth = max(parent.depth, node.depth + 1)
        if isinstance(parent.value, list):
            parent.value.append(node.value)
        elif is_object(parent.value):
            self.add_member(parent, parent.value, node.value)

    def add_member(self, parent: _Node, members: JsonObject, value: Json) -> None:
        if not parent.has_key:
            if isinstance(value, (list, dict)):
                raise YamlError("YAML: a key must be a string or a number")
            parent.key, parent.has_key = "" if value is None else to_string(value), True
            return
        assert parent.key is not None
        if parent.key in members:
            self.warn(f"YAML: the key {parent.key[:80]!r} is given twice; its last value was used")
        members[parent.key] = value
        parent.has_key = False

    def count(self, nodes: int) -> None:
        self.total += nodes
        if self.total > self.limits.max_yaml_nodes:
            raise LimitExceededError(
                f"YAML: more than {self.limits.max_yaml_nodes} values (aliases expanded)", limit="max_yaml_nodes"
            )

    def too_deep(self) -> None:
        raise LimitExceededError(
            f"YAML: nested deeper than {self.limits.max_json_depth} levels", limit="max_json_depth"
        )


def parse_yaml(data: bytes, limits: Limits, warn: Warn, *, keep_infinity: bool = False) -> Json:
    """Parse the first document of a YAML text.

    Args:
        data: The text.
        limits: Limits on its size and depth.
        warn: Called with values that are not read as written.
        keep_infinity: Read ``.inf`` and ``.nan`` as such instead of as null, if the value is not meant for JSON.

    Raises:
        YamlError: The text is not YAML.
        LimitExceededError: The text needs more than its limits.
    """
    import yaml

    text = decode_text(data, warn, what="YAML").removeprefix("\ufeff")
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    builder = _Builder(limits, warn, keep_infinity)
    documents = 0
    try:
        parse = cast("Callable[..., Iterator[object]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]  # untyped
        for event in parse(text, Loader=loader):
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                warn("YAML: only the first document was read")
                break
            _handle(event, builder)
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise YamlError(f"YAML: {error}") from error
    return builder.result


def _handle(event: object, builder: _Builder) -> None:
    import yaml

    if isinstance(event, yaml.ScalarEvent):
        builder.leaf(_scalar(event, builder), event.anchor)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(str(event.anchor))
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.open(_Node([], anchor=event.anchor))
    elif isinstance(event, yaml.MappingStartEvent):
        builder.open(_Node({}, anchor=event.anchor))
    elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
        builder.close()


def _scalar(event: yaml.ScalarEvent, builder: _Builder) -> Json:
    text = str(event.value)
    tag = event.tag
    plain = event.implicit[0] if tag is None else tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null")
    return resolve_scalar(text, builder.warn, keep_infinity=builder.keep_infinity) if plain else text


def resolve_scalar(text: str, warn: Warn, *, keep_infinity: bool = False) -> Json:
    """Return the value of a plain scalar by YAML 1.2's core rules."""
    if _NULL.match(text):
        return None
    if found := _BOOL.match(text):
        return found[1] is None
    if len(text) <= MAX_DIGITS:
        for pattern, base in ((_INT, 10), (_OCTAL, 8), (_HEX, 16)):
            if pattern.match(text):
                return int(text.removeprefix("0o"), base)
        if _FLOAT.match(text) and (keep_infinity or math.isfinite(float(text))):
            return float(text)
    if _NOT_FINITE.match(text):
        if keep_infinity:
            return float(text.replace(".", ""))
        warn(f"YAML: {text} is not a JSON number and was read as null")
        return None
    return text


def dump_yaml(value: Json, warn: Warn) -> str:
    """Write YAML that reads back as the same value: long texts as blocks, odd ones quoted."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        if _LONE_SURROGATE.search(text):
            warn("YAML: half a character (a lone surrogate) was replaced by U+FFFD")
            text = _LONE_SURROGATE.sub("\ufffd", text)
        style = _style(text)
        return dumper.represent_scalar(_TAG + "str", text, style=style)  # pyright: ignore[reportUnknownMemberType]

    Dumper.add_representer(str, represent)
    return yaml.dump(value, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=2**31)


def _style(text: str) -> str | None:
    if "\n" in text and _BLOCK.match(text):
        return "|"
    return None if _PLAIN.match(text) and isinstance(resolve_scalar(text, ignore), str) else '"'


def with_short_form(card: JsonObject) -> JsonObject:
    """Put name, context and greeting first, for programs that read only those."""
    home = _home(card)
    short = {short: home[key] for short, key in SHORT_FORM.items() if key in home and short not in card}
    return {**short, **card}


def without_short_form(card: JsonObject) -> JsonObject:
    """Remove what ``with_short_form()`` added; copies with other values stay."""
    home = _home(card)
    added = itertools.takewhile(SHORT_FORM.__contains__, card)
    copies = {key for key in added if home is not card or key != "name"}
    copies = {key for key in copies if SHORT_FORM[key] in home and home[SHORT_FORM[key]] == card[key]}
    return {key: value for key, value in card.items() if key not in copies}


def _home(card: JsonObject) -> JsonObject:
    data = card.get("data")
    return data if is_object(data) else card
