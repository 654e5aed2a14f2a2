"""What is fuzzed by :mod:`fuzz.guided`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from tavernkit.cards import load
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.models._sse import SSEParser
from tavernkit.risu_ai.cbs.context import CBSContext
from tavernkit.risu_ai.cbs.engine import CBSEngine
from tavernkit.risu_ai.chat_templates.rendering import CompiledTemplate, Rendering, TemplateProblem
from tavernkit.risu_ai.files.module_file import read_module
from tavernkit.risu_ai.files.preset_file import read_preset
from tavernkit.silly_tavern.context_template.handlebars.template import Template
from tavernkit.silly_tavern.macros import LegacyMacroEngine, MacroEngine, MacroEnvironment
from tavernkit.text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.vibe_tavern.directives.parser import parse_json
from tavernkit.vibe_tavern.liquid_macros.render import render_liquid
from tavernkit.vibe_tavern.output_tags.config import OutputTagsConfig
from tavernkit.vibe_tavern.output_tags.stream import OutputTagsStream


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that takes bytes from strangers; ``surfaces`` are the vectors whose texts it begins with."""

    name: str
    run: Callable[[bytes], object]
    surfaces: tuple[str, ...] = ()
    seeds: tuple[bytes, ...] = (b"",)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape" if data[:1] == b"\xff" else "replace")


def _now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def _card(data: bytes) -> None:
    with contextlib.suppress(TavernKitError):
        load(data, warn=WarningLog())


def _risu_files(data: bytes) -> None:
    for read in (read_preset, lambda given, warn: read_module(given, name="m", new_id=None, warn=warn)):
        with contextlib.suppress(TavernKitError):
            read(data, warn=WarningLog())


@cache
def _engines() -> tuple[MacroEngine, LegacyMacroEngine, CBSEngine]:
    return MacroEngine(), LegacyMacroEngine(), CBSEngine()


def _environment() -> MacroEnvironment:
    return MacroEnvironment(user_name="Ann", character_name="Bel", clock=_now, random=lambda: 0.5)


def _macros(data: bytes) -> None:
    _engines()[0].expand(_text(data), _environment(), warn=WarningLog())


def _old_macros(data: bytes) -> None:
    _engines()[1].expand(_text(data), _environment(), warn=WarningLog())


def _cbs(data: bytes) -> None:
    _engines()[2].expand(_text(data), CBSContext(user="Ann"), warn=WarningLog())


def _handlebars(data: bytes) -> None:
    with contextlib.suppress(TavernKitError):
        Template.compile(_text(data)).render({"char": "Bel", "user": "Ann", "description": "text"}, str.upper)


def _jinja(data: bytes) -> None:
    given = Rendering(
        messages=[{"role": "user", "content": "hi"}],
        add_generation_prompt=True,
        character_name="Bel",
        user_name="Ann",
        strict=False,
    )
    with contextlib.suppress(TemplateProblem):
        CompiledTemplate(_text(data)).render(given, 1.0)


def _liquid(data: bytes) -> None:
    with contextlib.suppress(TavernKitError):
        render_liquid(_text(data), assigns={"char": "Bel", "list": [1, 2]}, warn=WarningLog())


def _json_repair(data: bytes) -> None:
    parse_json(_text(data), repair=True)


_TAGS = OutputTagsConfig.from_mapping(
    {"enabled": True, "rules": [{"tag": "lang", "action": "strip"}, {"tag": "think", "action": "drop"}]}
)


def _output_tags(data: bytes) -> None:
    text = _text(data)
    stream = OutputTagsStream(_TAGS)
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    assert len("".join(map(stream.feed, pieces)) + stream.finish()) <= 2 * len(text) + 100


def _events(data: bytes) -> None:
    parser = SSEParser()
    whole = [*parser.feed(data), *parser.finish()]
    parser = SSEParser()
    parts = [event for at in range(0, len(data), 5) for event in parser.feed(data[at : at + 5])]
    assert whole == [*parts, *parser.finish()]


_QUICK = 0.5
"""Seconds: what is called quick should take less than 0.1."""


def _quick_patterns(data: bytes) -> None:
    """A pattern that is called quick is quick, on texts that grow."""
    pattern, _, piece = _text(data).partition("\n")
    flags, _, source = pattern.partition(" ") if " " in pattern[:3] else ("", "", pattern)
    try:
        regex = JSRegex(source, flags)
    except JSRegexSyntaxError:
        return
    for count in (1, 50, 2000):
        text = (piece or "a") * count + "!"
        if len(text) < 200_000 and regex._guard.is_quick(text, 0.1):
            started = time.process_time()
            regex.search(text)
            assert time.process_time() - started < _QUICK, (source, flags, piece, count)


_PATTERNS = (rb"(a+)+b" + b"\naa", rb"i \w+\s*=" + b"\na ", rb"(?:a|b)*?c" + b"\nab", rb"(?<=a.*)b" + b"\na")


TARGETS = {
    target.name: target
    for target in (
        Target("cards", _card, ("cards/cards",), (b"", json.dumps({"spec": "chara_card_v2", "data": {}}).encode())),
        Target("risu_files", _risu_files, ("risu_ai/preset_files",), (b"", b"{}", b"\x6f\x00\x04\x00\x00\x00{}[]")),
        Target("macros", _macros, ("silly_tavern/macros_v2",)),
        Target("old_macros", _old_macros, ("silly_tavern/macros_v1",)),
        Target("cbs", _cbs, ("risu_ai/cbs",)),
        Target("handlebars", _handlebars, ("silly_tavern/context_template",)),
        Target(
            "jinja",
            _jinja,
            ("risu_ai/jinja_templates",),
            (b"{% for m in messages %}{{ m.role + m.content | trim }}{% endfor %}",),
        ),
        Target(
            "liquid",
            _liquid,
            ("vibe_tavern/liquid_macros",),
            (b"{% assign a = char | upcase %}{{ a }}{% for i in list %}{{ i }}{% endfor %}",),
        ),
        Target(
            "json_repair",
            _json_repair,
            ("vibe_tavern/directives_parser",),
            (b'{"a": [1, 2, {"b": "c"}]}', b"```json\n{}\n```"),
        ),
        Target("output_tags", _output_tags, ("vibe_tavern/output_tags",), (b"a <lang>b</lang> <think>c</think>",)),
        Target("events", _events, (), (b"data: {}\n\n", b"event: a\r\ndata: b\rdata: c\n\n")),
        Target("quick_patterns", _quick_patterns, (), _PATTERNS),
    )
}
