"""Macros, CBS and regex scripts, tried out on a text with the workspace's card, persona and chat."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tavernkit import risu_ai, silly_tavern
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.traced import Origin, Piece, Traced, pieces_of, plain, trace, tracing
from tavernkit._values import Json, JsonObject, is_list, thaw
from tavernkit.errors import WarningLog
from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._regex_scripts import RegexScript as RisuRegexScript
from tavernkit.risu_ai._regex_scripts import RegexScriptRunner
from tavernkit.silly_tavern import MacroEngine, RegexScript
from tavernkit.silly_tavern._scripts.regex_replacement import regex_from_string
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._prompt_view import utf16_length
from tavernkit.studio._turn import RISU_AI, Turn
from tavernkit.studio._workspace import State

MAX_DEPTH: Final = 60
"""Macros inside macros that a tree shows."""
MAX_NODES: Final = 5000
MAX_MATCHES: Final = 1000
_MARKS: Final = re.compile(r"\{\{|\}\}")
_NAME: Final = re.compile(r"\{\{\s*[#/]?\s*[!?~>]*\s*([^\s:}{|]*)")


def try_macros(inputs: Inputs, state: State, text: str, engine: str) -> JsonObject:
    """Return what a text becomes: its parse tree with values, what was odd, the variables it would set.

    Args:
        inputs: Makes the builder.
        state: The documents.
        text: The text.
        engine: Whose macros: ``silly_tavern`` or ``risu_ai`` (CBS).
    """
    started = time.perf_counter()
    with tracing():
        given = trace(text, Origin("playground", "", "", text)) if text else text
        run = _cbs if engine == RISU_AI else _macros
        made, diagnostics, variables = run(inputs, _on(state, engine), given)
        values = _values(made)
    spent = (time.perf_counter() - started) * 1000
    root = parse_tree(text)
    return {
        "output": plain(made),
        "ms": round(spent, 2),
        "warnings": list(diagnostics),
        "tree": root.to_dict(text, values, plain(made)),
        "variables": variables,
    }


def try_script(inputs: Inputs, state: State, script: Mapping[str, Json], text: str, engine: str) -> JsonObject:
    """Return what a regex script makes of a text, and what it matches.

    Args:
        inputs: Makes the builder.
        state: The documents.
        script: The script as files have it.
        text: The text.
        engine: Whose script it is.
    """
    log = WarningLog()
    if engine == RISU_AI:
        output, regex = _risu_script(inputs, _on(state, engine), script, text, log)
    else:
        output, regex = _silly_tavern_script(inputs, _on(state, engine), script, text, log)
    matches: list[Json] = []
    for match in (regex.find_all(text, warn=log) if regex is not None else [])[:MAX_MATCHES]:
        groups: list[Json] = list(match.groups)
        row: JsonObject = {
            "start": match.utf16_start,
            "end": match.utf16_end,
            "text": match.text,
            "groups": groups,
        }
        matches.append(row)
        if regex is not None and not regex.global_:
            break
    return {"output": output, "matches": matches, "warnings": list(dict.fromkeys(log.messages))}


@dataclass(slots=True)
class Node:
    """A part of a text with macros: plain text, a macro with what stands in it, or a block with its two tags."""

    kind: str
    start: int
    end: int
    name: str = ""
    children: list[Node] = field(default_factory=list["Node"])

    def to_dict(self, text: str, values: Mapping[int, str], output: str, *, inside: bool = False) -> JsonObject:
        """The tree as JSON, offsets in UTF-16 units.

        Args:
            text: The whole text.
            values: What macros gave, by where they begin.
            output: What the text became.
            inside: Whether it stands in a macro, whose value does not show what it gave.
        """
        value: str | None = None
        if self.kind in ("macro", "block"):
            value = values.get(self.start)
            if value is None and not inside and text[self.start : self.end] not in output:
                value = ""
        start = utf16_length(text[: self.start])
        return {
            "kind": self.kind,
            "name": self.name,
            "text": text[self.start : self.end],
            "start": start,
            "end": start + utf16_length(text[self.start : self.end]),
            "value": value,
            "children": [
                child.to_dict(text, values, output, inside=inside or self.kind in ("macro", "block"))
                for child in self.children
            ],
        }


def parse_tree(text: str) -> Node:
    """Return how a text with macros is nested: what stands between braces, and between the tags of blocks."""
    root = Node("document", 0, len(text))
    open_nodes = [root]
    at = nodes = 0
    for mark in _MARKS.finditer(text):
        if mark[0] == "{{":
            if len(open_nodes) < MAX_DEPTH and nodes < MAX_NODES:
                _add_text(open_nodes[-1], at, mark.start())
                open_nodes.append(Node("macro", mark.start(), len(text)))
                at, nodes = mark.end(), nodes + 1
        elif len(open_nodes) > 1:
            node = open_nodes.pop()
            _add_text(node, at, mark.start(), only_between=True)
            node.end = at = mark.end()
            found = _NAME.match(text, node.start)
            node.name = found[1] if found is not None else ""
            open_nodes[-1].children.append(node)
    for node in open_nodes[:0:-1]:  # never closed: its text stays text
        open_nodes[open_nodes.index(node) - 1].children += [Node("text", node.start, node.start + 2), *node.children]
        at = max(at, node.start + 2)
    _add_text(root, at, len(text))
    _pair_blocks(root, text)
    return root


def _add_text(parent: Node, start: int, end: int, *, only_between: bool = False) -> None:
    """Add the text between two macros; inside a macro that has none, its own words need no node."""
    if end > start and not (only_between and not parent.children) and (parent.kind == "document" or parent.children):
        parent.children.append(Node("text", start, end))


def _pair_blocks(node: Node, text: str) -> None:
    """Put what stands between an opening and a closing tag into a block."""
    paired: list[Node] = []
    for child in node.children:
        _pair_blocks(child, text)
        inner = text[child.start + 2 : child.end].lstrip()
        if child.kind == "macro" and inner.startswith("/"):
            name = child.name.lower()
            opening = next((at for at in range(len(paired) - 1, -1, -1) if _opens(paired[at], name)), None)
            if opening is not None:
                first = paired[opening]
                block = Node("block", first.start, child.end, first.name, [*paired[opening:], child])
                paired[opening:] = [block]
                continue
        paired.append(child)
    node.children = paired


def _opens(node: Node, name: str) -> bool:
    return node.kind == "macro" and (node.name.lower() == name or not name)


def _on(state: State, engine: str) -> State:
    """Return the documents with the platform of an engine."""
    return state.with_turn(platform=RISU_AI if engine == RISU_AI else "silly_tavern")


Made = tuple[str, list[str], JsonObject]


def _macros(inputs: Inputs, state: State, text: str) -> Made:
    builder = inputs.builder(state)
    assert isinstance(builder, silly_tavern.Builder)
    context = builder.make_context()
    prepared = builder.make_state(context)
    environment = prepared.macros.environment.replace(
        random=random.Random(Turn.of(state).seed).random, variables=prepared.variables
    )
    result = MacroEngine().evaluate(text, environment)
    changes: JsonObject = {
        "local": {},
        "global": {},
        **{scope: thaw(values) for scope, values in prepared.variables.changes().values.items()},
    }
    return result.text, [_told(each) for each in result.diagnostics], changes


def _cbs(inputs: Inputs, state: State, text: str) -> Made:
    builder = inputs.builder(state)
    assert isinstance(builder, risu_ai.Builder)
    context = builder.make_context()
    preset = context.preset if context.preset is not None else context.settings.preset
    variables = InMemoryVariablesStore()
    texts = context.for_texts(preset, context.owner, variables).replace(writes="run")
    result = CBSEngine().evaluate(text, texts)
    stored: JsonObject = {"local": {}, "global": {}}
    for scope, values in variables.to_dict().items():
        stored[scope] = values
    return result.text, [_told(each) for each in result.diagnostics], stored


def _told(diagnostic: object) -> str:
    message = getattr(diagnostic, "message", None)
    return message if isinstance(message, str) else str(diagnostic)


def _values(made: str) -> dict[int, str]:
    """What each macro gave, by the place where it begins in the text that was tried."""
    found: dict[int, list[str]] = {}
    for piece in pieces_of(made):
        for start in dict.fromkeys(_calls(piece)):
            found.setdefault(start, []).append(plain(made)[piece[0] : piece[1]])
    return {start: "".join(parts) for start, parts in found.items()}


def _calls(piece: Piece) -> Iterator[int]:
    """Where the macros begin that a piece came through."""
    via = piece[4]
    while via is not None:
        call = via.change.text
        if via.change.kind == "expanded" and isinstance(call, Traced):
            for _, _, origin, offset, _ in call.pieces[:1]:
                if origin is not None and origin.kind == "playground":
                    yield offset
        via = via.before


def _silly_tavern_script(
    inputs: Inputs, state: State, script: Mapping[str, Json], text: str, log: WarningLog
) -> tuple[str, JSRegex | None]:
    builder = inputs.builder(state)
    assert isinstance(builder, silly_tavern.Builder)
    environment = builder.make_state(builder.make_context()).macros.environment
    engine = MacroEngine()

    def expand(source: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
        return engine.expand(source, environment, character_name=character, post_process=escape, warn=log)

    read = RegexScript.from_json({**script, "disabled": False})
    trims = script.get("trimStrings")
    if trims is not None and not is_list(trims):
        log("trimStrings is not a list")
    return read.run(text, expand=expand, warn=log), regex_from_string(read.find_regex) if read.find_regex else None


def _risu_script(
    inputs: Inputs, state: State, script: Mapping[str, Json], text: str, log: WarningLog
) -> tuple[str, JSRegex | None]:
    builder = inputs.builder(state)
    assert isinstance(builder, risu_ai.Builder)
    context = builder.make_context()
    preset = context.preset if context.preset is not None else context.settings.preset
    texts = context.for_texts(preset, context.owner, InMemoryVariablesStore())
    fields = {"in": script.get("findRegex"), "out": script.get("replaceString"), **script, "type": "editoutput"}
    read = RisuRegexScript.from_json(fields)
    made = RegexScriptRunner().run(text, "editoutput", [read], texts, warn=log).text
    try:
        regex = JSRegex.compile(read.pattern, _flags(read)) if read.pattern else None
    except JSRegexSyntaxError as error:
        log(f"{read.pattern!r:.200} is not a regular expression: {error}")
        regex = None
    return made, regex


def _flags(script: RisuRegexScript) -> str:
    """The flags of a script; RisuAI's own words among them are none of JavaScript's."""
    if not script.able_flag:
        return "g"
    known = [flag for flag in dict.fromkeys(re.sub(r"<[^>]*>", "", script.flag)) if flag in "dgimsuvy"]
    return "".join(known) or "u"
