"""Sanitizers: repairs of markup that models get wrong, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text import language_tag
from tavernkit._text.coerce import boolean
from tavernkit._values import FrozenObject, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._options import is_blank, option_name
from tavernkit.vibe_tavern._output_tags.markup import FoundTag, find_tags, read_attributes, write_tag

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
        if not option_name(name):
            raise ConfigError("a sanitizer needs a name", code="INVALID_SANITIZER")
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
        if self._dropping:
            self._open.append("strip")
            return ""
        treatment, written = self._judge(tag)
        self._open.append(treatment)
        self._dropping += treatment == "drop"
        return written

    def _judge(self, tag: FoundTag) -> tuple[str, str]:
        attributes = read_attributes(tag.attributes)
        code = next((value.strip("\"'") for key, value in attributes if key.lower() == "code" and value), None)
        normal = None if code is None else language_tag.normalize(code)
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
