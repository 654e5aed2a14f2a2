"""Tries macros, CBS and regex scripts on a text with the workspace's card, persona and chat."""

from __future__ import annotations

import random
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tavernkit import risu_ai, silly_tavern
from tavernkit._macros import MAX_TREE_NODES, TreeNode
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.traced import Origin, Piece, Traced, pieces_of, plain, trace, tracing
from tavernkit._values import Json, JsonObject, is_list, thaw
from tavernkit.errors import WarningLog
from tavernkit.risu_ai._cbs.tree import evaluate_with_tree
from tavernkit.risu_ai._regex_scripts import RegexScript as RisuRegexScript
from tavernkit.risu_ai._regex_scripts import RegexScriptRunner
from tavernkit.silly_tavern import MacroEngine, RegexScript
from tavernkit.silly_tavern._macros.tree import macro_tree
from tavernkit.silly_tavern._scripts.regex_replacement import regex_from_string
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._turn import RISU_AI, Turn
from tavernkit.studio._workspace import State

MAX_MATCHES: Final = 1000


def try_macros(inputs: Inputs, state: State, text: str, engine: str) -> JsonObject:
    """Return the expansion of a text: its parse tree with values, warnings, the variables it would set.

    Args:
        inputs: Makes the builder.
        state: The documents.
        text: The text.
        engine: Whose macros: ``silly_tavern`` or ``risu_ai`` (CBS).
    """
    started = time.perf_counter()
    run = _cbs if engine == RISU_AI else _macros
    made = run(inputs, _on(state, engine), text)
    spent = (time.perf_counter() - started) * 1000
    offsets = _UTF16(text)
    nodes = 0

    def as_json(node: TreeNode) -> JsonObject:
        nonlocal nodes
        nodes += 1
        return {
            "kind": node.kind,
            "name": node.name,
            "text": text[node.start : node.end],
            "start": offsets.at(node.start),
            "end": offsets.at(node.end),
            "value": node.value,
            "children": [as_json(child) for child in node.children],
        }

    tree = as_json(made.tree)
    if nodes >= MAX_TREE_NODES:
        made.warnings.append(f"the tree shows the first {MAX_TREE_NODES} parts only")
    return {
        "output": made.text,
        "ms": round(spent, 2),
        "warnings": list(made.warnings),
        "tree": tree,
        "variables": made.variables,
    }


def try_script(inputs: Inputs, state: State, script: Mapping[str, Json], text: str, engine: str) -> JsonObject:
    """Return the result of a regex script on a text, and its matches.

    Args:
        inputs: Makes the builder.
        state: The documents.
        script: The script in its file format.
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


def _on(state: State, engine: str) -> State:
    """Return the documents with the platform of an engine."""
    return state.with_turn(platform=RISU_AI if engine == RISU_AI else "silly_tavern")


@dataclass(frozen=True, slots=True)
class _Made:
    """The result of expanding a text."""

    text: str
    tree: TreeNode
    warnings: list[str]
    variables: JsonObject


def _macros(inputs: Inputs, state: State, text: str) -> _Made:
    builder = inputs.builder(state)
    assert isinstance(builder, silly_tavern.Builder)
    context = builder.make_context()
    prepared = builder.make_state(context)
    environment = prepared.macros.environment.replace(
        random=random.Random(Turn.of(state).seed).random, variables=prepared.variables
    )
    engine = MacroEngine()
    with tracing():
        given = trace(text, Origin("playground", "", "", text)) if text else text
        result = engine.evaluate(given, environment)
        values = _values(result.text)
    changes: JsonObject = {
        "local": {},
        "global": {},
        **{scope: thaw(values) for scope, values in prepared.variables.changes().values.items()},
    }
    output = plain(result.text)

    def with_values(node: TreeNode, *, inside: bool = False) -> TreeNode:
        """Add the values of macros; those of nested macros are known only if the outer macro printed them."""
        calls = node.kind in ("macro", "block")
        children = tuple(with_values(child, inside=inside or calls) for child in node.children)
        value = values.get(node.start) if calls else None
        if calls and value is None and not inside and text[node.start : node.end] not in output:
            value = ""
        return replace(node, children=children, value=value)

    tree = with_values(macro_tree(engine, text, environment))
    return _Made(output, tree, [_diagnostic_text(each) for each in result.diagnostics], changes)


def _cbs(inputs: Inputs, state: State, text: str) -> _Made:
    builder = inputs.builder(state)
    assert isinstance(builder, risu_ai.Builder)
    context = builder.make_context()
    preset = context.preset if context.preset is not None else context.settings.preset
    variables = InMemoryVariablesStore()
    texts = context.for_texts(preset, context.owner, variables).replace(writes="run")
    result, tree = evaluate_with_tree(text, texts)
    stored: JsonObject = {"local": {}, "global": {}}
    for scope, values in variables.to_dict().items():
        stored[scope] = values
    return _Made(plain(result.text), tree, [_diagnostic_text(each) for each in result.diagnostics], stored)


def _diagnostic_text(diagnostic: object) -> str:
    message = getattr(diagnostic, "message", None)
    return message if isinstance(message, str) else str(diagnostic)


class _UTF16:
    """Converts offsets in a text to JavaScript offsets."""

    def __init__(self, text: str) -> None:
        self._wide = [at for at, character in enumerate(text) if character > "\uffff"]

    def at(self, offset: int) -> int:
        return offset + bisect_left(self._wide, offset)


def _values(made: str) -> dict[int, str]:
    """Return the value of each macro, by its offset in the text."""
    found: dict[int, list[str]] = {}
    for piece in pieces_of(made):
        for start in dict.fromkeys(_calls(piece)):
            found.setdefault(start, []).append(plain(made)[piece[0] : piece[1]])
    return {start: "".join(parts) for start, parts in found.items()}


def _calls(piece: Piece) -> Iterator[int]:
    """Return the offsets of the macros that produced a piece."""
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
    """Return the JavaScript flags of a script, without RisuAI's own."""
    if not script.able_flag:
        return "g"
    known = [flag for flag in dict.fromkeys(re.sub(r"<[^>]*>", "", script.flag)) if flag in "dgimsuvy"]
    return "".join(known) or "u"
