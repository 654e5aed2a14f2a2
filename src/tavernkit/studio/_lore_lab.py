"""The lore lab: which entries fire for a text or in a chat, why the others do not, and tests of both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Final

from tavernkit import risu_ai, silly_tavern
from tavernkit._atomic import write_atomically
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.authoring import CaseFileError, lore_coverage, read_cases
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._yaml_card import dump_yaml, parse_yaml
from tavernkit.errors import FileFormatError, WarningLog
from tavernkit.lore import LoreRow
from tavernkit.prompt._plan import Plan
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._document import Document
from tavernkit.studio._places import Places, entry_count
from tavernkit.studio._prompt_view import lore_row
from tavernkit.studio._turn import Turn, persona_of
from tavernkit.studio._workspace import State
from tavernkit.studio.errors import StudioError

MAX_UNTOUCHED: Final = 2000
"""The maximum number of listed entries without any match."""
MAX_TURNS: Final = 300
"""The number of turns in a chart: the newest ones."""
MAX_NEAR_ENTRIES: Final = 3000
"""Entries whose keys are compared with the words of a text."""
MAX_NEAR_WORDS: Final = 600
NEAR: Final = 0.8
"""How similar a key and words of the text must be to be shown: 1 means equal."""
CASE_ENDING: Final = ".lore.yaml"

_WORDS: Final = re.compile(r"[\w'’-]+")
_BY_RECURSION: Final = re.compile(r" in lore ")
_OUT_OF_BUDGET: Final = re.compile(r"\bbudget\b")


def scan(inputs: Inputs, state: State, text: str, *, with_chat: bool) -> JsonObject:
    """Return which entries fire for a text, and why others do not.

    Args:
        inputs: Makes the builder.
        state: The documents.
        text: What the user says.
        with_chat: Include the chat before it.
    """
    plan = _build_with(inputs, state, text, with_chat=with_chat)
    result = plan.lore_result
    rows = [] if result is None else result.rows(untouched=MAX_UNTOUCHED)
    places = Places(state)
    words = [*islice(_WORDS.findall(text), MAX_NEAR_WORDS)]
    near = _Near(words)
    found_rows: list[Json] = [
        {**lore_row(row, places), "near": near.keys(row) if not row.active and number < MAX_NEAR_ENTRIES else []}
        for number, row in enumerate(rows)
    ]
    budget = getattr(result, "budget", None)
    return {
        "active": sum(row.active for row in rows),
        "total": entry_count(state) or len(rows),
        "tokens": 0 if result is None else result.total_tokens,
        "budget": budget if isinstance(budget, int) else None,
        "rows": found_rows,
    }


def chart(inputs: Inputs, state: State) -> JsonObject:
    """Return which entries were in the prompt of every reply of the chat."""
    turns: list[Json] = []
    scans: list[Sequence[LoreRow]] = []
    lines, replayed = _replay(inputs, state)
    for number, (line, plan) in enumerate(replayed):
        result = plan.lore_result
        scans.append([] if result is None else result.rows(untouched=MAX_UNTOUCHED))
        said = lines[line - 1][:80] if 0 < line <= len(lines) else ""
        turns.append({"index": number, "line": line, "text": said})
    places = Places(state)
    fired: dict[tuple[str, str], tuple[list[Json], list[Json], list[Json]]] = {}
    rows: dict[tuple[str, str], LoreRow] = {}
    for number, found in enumerate(scans):
        for row in found:
            key = (row.book, row.id)
            rows.setdefault(key, row)
            in_prompt, by_recursion, over_budget = fired.setdefault(key, ([], [], []))
            if row.active:
                in_prompt.append(number)
                if _BY_RECURSION.search(row.reason):
                    by_recursion.append(number)
            elif _OUT_OF_BUDGET.search(row.reason):
                over_budget.append(number)
    entries: list[Json] = []
    for each in reversed(lore_coverage(scans)):
        key = (each.book, each.id)
        in_prompt, by_recursion, over_budget = fired[key]
        document, pointer = places.entry(rows[key])
        entries.append(
            {
                "id": each.id,
                "title": each.title,
                "book": each.book,
                "document": document,
                "pointer": pointer,
                "verdict": each.verdict,
                "fired": in_prompt,
                "by_recursion": by_recursion,
                "over_budget": over_budget,
            }
        )
    return {"turns": turns, "entries": entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A result of the lab that should become a test."""

    name: str
    text: str
    fires: Sequence[str] = ()
    stays_out: Sequence[str] = ()
    with_chat: bool = False


def keep(state: State, finding: Finding, *, write: bool) -> JsonObject:
    """Return a finding as a test for ``tavernkit test``, and optionally add it to the test file next to the book.

    Args:
        state: The documents; their files are named in the test.
        finding: What was found.
        write: Write the file.

    Raises:
        StudioError: No document has a file, or the test file has other content.
    """
    if not finding.fires and not finding.stays_out:
        raise StudioError(422, "say which entries must fire or stay out", code="nothing_expected")
    path = _case_path(state)
    test = _case(state, finding, path.parent if path is not None else None)
    yaml = dump_yaml({"tests": [test]}, WarningLog())
    if write:
        if path is None:
            raise StudioError(409, "neither book nor card belongs to a file: download the test", code="not_writable")
        _append(path, test, yaml)
    unsaved: list[Json] = [
        each.title
        for each in state.documents.values()
        if each.id in state.active and _has_name(each) and not each.saved
    ]
    return {
        "yaml": yaml,
        "file": path.name if path is not None else None,
        "written": write,
        "unsaved": unsaved,
    }


class _Near:
    """Finds words of a text that are similar to a key."""

    def __init__(self, words: Sequence[str]) -> None:
        self._windows: dict[int, dict[str, list[str]]] = {}
        self._words = words

    def keys(self, row: LoreRow) -> list[Json]:
        """Return keys of an entry that are similar to words of the text, and these words."""
        found_rows: list[Json] = []
        for key in row.keys[:20]:
            length = len(_WORDS.findall(key))
            if not 4 <= len(key) <= 60 or not length or key.startswith("/"):
                continue
            folded = key.casefold()
            best, found = NEAR, ""
            for words in self._beginning(length, folded) + self._beginning(length - 1, folded):
                matcher = SequenceMatcher(None, folded, words.casefold(), autojunk=False)
                if words.casefold() != folded and matcher.real_quick_ratio() > best and matcher.ratio() > best:
                    best, found = matcher.ratio(), words
            if found:
                found_rows.append({"key": key, "word": found})
        return found_rows

    def _beginning(self, length: int, key: str) -> list[str]:
        """Return consecutive words that begin like a key."""
        if length < 1:
            return []
        if length not in self._windows:
            found: dict[str, list[str]] = {}
            for at in range(len(self._words) - length + 1):
                words = " ".join(self._words[at : at + length])
                found.setdefault(words[:1].casefold(), []).append(words)
            self._windows[length] = found
        return self._windows[length].get(key[:1], [])


def _build_with(inputs: Inputs, state: State, text: str, *, with_chat: bool) -> Plan:
    builder = inputs.builder(state)
    if isinstance(builder, risu_ai.Builder):
        if with_chat:
            return builder.build(message=text, generation_type="normal", on_overflow="return")
        empty: JsonObject = {"message": [], "fmIndex": -1}
        return builder.build(message=text, history=empty, generation_type="normal", on_overflow="return")
    if with_chat:
        return builder.build(message=text, generation_type="normal", on_overflow="return")
    return builder.build(message=text, history=[], generation_type="normal", on_overflow="return")


def _replay(inputs: Inputs, state: State) -> tuple[list[str], Iterator[tuple[int, Plan]]]:
    """Return the newest lines of the chat, and the prompts of the replies in them."""
    builder = inputs.builder(state)
    most = MAX_TURNS * 2
    if isinstance(builder, risu_ai.Builder):
        chat = inputs.risu_chat(state)
        spoken = chat.messages[-most:]
        history = {**chat.raw, "message": [message.to_json() for message in spoken]}
        turns = risu_ai.replay(builder.replace(history=history))
        return [message.data for message in spoken], ((turn.line, turn.plan) for turn in turns)
    lines = inputs.silly_tavern_chat(state).messages[-most:]
    turns = silly_tavern.replay(builder.replace(history=lines))
    return [line.mes for line in lines], ((turn.line, turn.plan) for turn in turns)


def _has_name(document: Document) -> bool:
    return document.kind in ("card", "book", "preset", "chat")


def _case_path(state: State) -> Path | None:
    """Return the test file next to the first book that is a file, or next to the card."""
    for document in (*state.active_of("book"), *state.active_of("card")):
        if document.path is not None:
            return document.path.with_name(f"{document.path.stem}{CASE_ENDING}")
    return None


def _case(state: State, finding: Finding, folder: Path | None) -> JsonObject:
    def named(document: Document) -> str:
        if document.path is None or folder is None:
            return document.file_name
        return Path(os.path.relpath(document.path, folder)).as_posix()

    turn = Turn.of(state)
    test: JsonObject = {"name": finding.name or finding.text[:60], "platforms": [turn.platform]}
    for kind in ("card", "preset"):
        document = state.one(kind)
        if document is not None:
            test[kind] = named(document)
    books: list[Json] = [named(each) for each in state.active_of("book")]
    if books:
        test["books"] = books
    chat = state.one("chat")
    if finding.with_chat and chat is not None:
        test["chat"] = named(chat)
    else:
        test["greeting"] = -1 if turn.platform == "silly_tavern" else 0
    test |= {"user": persona_of(state).name, "message": finding.text, "seed": turn.seed}
    expect: JsonObject = {}
    for key, titles in (("fires", finding.fires), ("stays_out", finding.stays_out)):
        if titles:
            expect[key] = list(titles)
    test["expect"] = expect
    return test


def _append(path: Path, test: JsonObject, yaml: str) -> None:
    """Add a test to a file; comments are kept if the test can be appended."""
    try:
        before = path.read_text("utf-8") if path.exists() else ""
        known: Json = {}
        if before.strip():
            read_cases(path, warn=WarningLog())
            known = parse_yaml(before.encode(), DEFAULT_LIMITS, WarningLog())
    except (OSError, UnicodeDecodeError, FileFormatError, CaseFileError) as error:
        raise StudioError(409, f"{path.name} cannot be added to: {error}", code="not_a_test_file") from error
    tests = known.get("tests") if is_object(known) else None
    assert is_object(known)
    wanted: Mapping[str, Json] = {**known, "tests": [*(tests if is_list(tests) else []), test]}
    simply = before.rstrip("\n") + "\n" + yaml.partition("\n")[2] if before.strip() else yaml
    content = simply if _reads_as(simply, wanted) else dump_yaml(dict(wanted), WarningLog())
    try:
        write_atomically(path, content.encode())
    except OSError as error:
        raise StudioError(409, f"{path.name} cannot be written: {error.strerror}", code="not_writable") from error


def _reads_as(text: str, wanted: Mapping[str, Json]) -> bool:
    try:
        return parse_yaml(text.encode(), DEFAULT_LIMITS, WarningLog()) == wanted
    except FileFormatError:
        return False
