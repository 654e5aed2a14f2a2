"""What is fuzzed by :mod:`fuzz.guided`."""

from __future__ import annotations

import contextlib
import json
import marshal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fuzz import file_targets, service_target
from fuzz.target import Target
from fuzz.target import as_text as _text
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.strict_json import loads as strict_loads
from tavernkit._values import JsonObject, is_object
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.models._anthropic import AnthropicReader
from tavernkit.models._cohere import CohereReader
from tavernkit.models._google import GoogleReader
from tavernkit.models._readers import KoboldReader, LlamaCppReader, NovelAIReader, OllamaReader, OpenAIReader, Reader
from tavernkit.models._streams import Accumulator, SSEParser
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._chat_templates.rendering import CompiledTemplate, Rendering, TemplateProblem
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tavernkit.risu_ai._triggers.lua.sandbox import standard_functions
from tavernkit.silly_tavern._macros import LegacyMacroEngine, MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._templates.handlebars.rendering import Template
from tavernkit.testing import ScriptedTriggerHost
from tavernkit.vibe_tavern._directives.envelope import parse_json, validate
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream


def _now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


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


def _check_patches(kind: str, payload: JsonObject) -> JsonObject | None:
    result = normalize_patch_ops(payload.get("ops"), allowed_path_prefixes=["/draft/", "/ui_state/"])
    return None if result.code is None else {"code": result.code, "details": result.details or {}}


_DIRECTIVES = (
    b'{"assistant_text": "a", "directives": [{"type": "ui.toast", "payload": {"ops": []}}]}',
    (
        b'{"assistant_text": "", "directives": [{"type": "state-patch", "payload": {"ops": '
        b'[{"op": "set", "path": "/draft/a", "value": 1}, {"op": "push", "path": "/ui_state/b~1c"}]}}]}'
    ),
)


def _directives(data: bytes) -> None:
    """Validate what a model sent as directives, with the parts that applications use."""
    found = parse_json(_text(data))
    if not found.ok:
        return
    for allowed in (None, ["ui.toast", "state.patch"]):
        result = validate(
            found.value, allowed_types=allowed, type_aliases={"toast": "ui.toast"}, payload_validator=_check_patches
        )
        json.dumps(result.to_dict())


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


def _stream(make: Callable[[], Reader]) -> Callable[[bytes], None]:
    """Make a target of the reader of a protocol: lines are the events of a stream, or one of them a whole body."""

    def read(data: bytes) -> None:
        for streamed in (True, False):
            reader, reply = make(), Accumulator()
            with contextlib.suppress(TavernKitError):
                for line in _text(data).splitlines() if streamed else [_text(data)]:
                    try:
                        event = strict_loads(line)
                    except ValueError:
                        continue
                    if is_object(event):
                        reply.add(reader.read(event))
                reader.finish(streamed=streamed)
            reply.reply()

    return read


class _Script:
    """Stands in for the worker process of Lua scripts: calls what the fuzzer says."""

    def __init__(self, session: Any) -> None:
        self.lock, self.generation = session.lock, 1
        self.calls: list[list[Any]] = []

    def open(self) -> None:
        """Be there."""

    def end_with_session(self) -> None:
        """Stay."""

    def request(self, payload: bytes, seconds: float, answer: Callable[[bytes], bytes]) -> tuple[bytes, float]:
        """Ask the host everything at once."""
        key = marshal.loads(payload)["texts"][1:2]
        for name, *arguments in self.calls if key else ():
            keyed = standard_functions()[name].keyed
            asked = {"call": name, "arguments": [*(key if keyed else ()), *arguments]}
            marshal.loads(answer(json.dumps(asked).encode()))
        return b'{"value": null, "memory": 0}', 0.0


def _argument(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.encode("utf-8", "replace").decode()


def _lua_functions(data: bytes) -> None:
    """Call functions that Lua scripts have: a line is a name and arguments with tabs between, JSON or else texts."""
    names = list(standard_functions())
    calls: list[list[Any]] = []
    for number, line in enumerate(_text(data).splitlines()[:20]):
        name, *arguments = line.split("\t")
        known = name if name in standard_functions() else names[(len(line) + number) % len(names)]
        calls.append([known, *map(_argument, arguments)])
    trigger = {"comment": "t", "type": "start", "conditions": [], "lowLevelAccess": True}
    trigger["effect"] = [{"type": "triggerlua", "code": "x"}]
    context = CBSContext(
        char=RisuCharacter.from_json({"name": "Bel", "chaId": "b", "triggerscript": [trigger], "lowLevelAccess": True}),
        user="Ann",
        chat=RisuChat(messages=(RisuMessage(role="user", data="hi"), RisuMessage(role="char", data="ho"))),
    )
    engine = TriggerEngine(limits=TriggerLimits(), host=ScriptedTriggerHost())
    script = _Script(engine._lua.session)
    script.calls = calls
    engine._lua.session = script  # pyright: ignore[reportAttributeAccessIssue]  # has what is used
    result = engine.run(context, "start", warn=WarningLog())
    json.dumps(result.variables)


def _lua_seeds() -> tuple[bytes, ...]:
    calls = [f'{name}\t0\t"a"\t{{"b": [1]}}' for name in standard_functions()]
    return tuple("\n".join(calls[at : at + 3]).encode() for at in range(0, len(calls), 2))


_STREAMS: dict[str, tuple[Callable[[], Reader], tuple[bytes, ...]]] = {
    "openai": (
        OpenAIReader,
        (
            (
                b'{"choices": [{"delta": {"content": "a", "tool_calls": [{"index": 0, "function": {"name": "f"}}]}}]}\n'
                b'{"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}'
            ),
            b'{"choices": [{"message": {"content": "a", "reasoning": "b"}, "finish_reason": "length"}]}',
        ),
    ),
    "anthropic": (
        AnthropicReader,
        (
            (
                b'{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}\n'
                b'{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "i"}}\n'
                b'{"type": "content_block_delta", "index": 0, "delta": {"partial_json": "{", '
                b'"type": "input_json_delta"}}\n'
                b'{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n{"type": "message_stop"}'
            ),
            b'{"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}',
        ),
    ),
    "google": (
        GoogleReader,
        (
            (
                b'{"candidates": [{"content": {"parts": [{"text": "a"}, {"functionCall": {"name": "f", "args": {}}}]}, '
                b'"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}}'
            ),
        ),
    ),
    "cohere": (
        CohereReader,
        (
            (
                b'{"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "a"}}}}\n'
                b'{"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": {"tokens": {}}}}'
            ),
            b'{"message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "COMPLETE"}',
        ),
    ),
    "text": (
        LlamaCppReader,
        (b'{"content": "a", "stop": false}\n{"content": "", "stop": true, "stop_type": "eos", "tokens_evaluated": 1}',),
    ),
    "ollama": (OllamaReader, (b'{"response": "a", "done": false}\n{"response": "", "done": true}',)),
    "kobold": (
        KoboldReader,
        (b'{"token": "a"}\n{"token": "", "finish_reason": "stop"}', b'{"results": [{"text": "a"}]}'),
    ),
    "novelai": (NovelAIReader, (b'{"token": "a", "final": false}\n{"token": "b", "final": true}', b'{"output": "a"}')),
}


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
        *file_targets.TARGETS,
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
        Target("directives", _directives, ("vibe_tavern/directives_validator",), _DIRECTIVES),
        Target("output_tags", _output_tags, ("vibe_tavern/output_tags",), (b"a <lang>b</lang> <think>c</think>",)),
        Target("events", _events, (), (b"data: {}\n\n", b"event: a\r\ndata: b\rdata: c\n\n")),
        *(Target(f"stream_{name}", _stream(make), (), begin) for name, (make, begin) in _STREAMS.items()),
        Target("quick_patterns", _quick_patterns, (), _PATTERNS),
        Target("lua_functions", _lua_functions, (), _lua_seeds()),
        service_target.TARGET,
    )
}
