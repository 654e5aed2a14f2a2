"""Authors' test files, ``*.tavern.yaml`` or ``*.lore.yaml`` next to a card, book or preset, and their JSON schema."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NoReturn, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._yaml_card import dump_yaml, parse_yaml
from tavernkit.errors import FileFormatError, Warn, log_warning
from tavernkit.lore import LoreRow
from tavernkit.prompt._plan import Plan

SUFFIXES = (".tavern.yaml", ".tavern.yml", ".lore.yaml", ".lore.yml")
"""File extensions of test files."""

PlatformName = Literal["silly_tavern", "risu_ai"]

PLATFORMS: tuple[PlatformName, ...] = ("silly_tavern", "risu_ai")
TEXT_INPUTS = ("user", "persona", "message", "generation_type", "model", "now")
FILE_INPUTS = ("card", "preset")
FILES_INPUTS = ("books", "modules", "regex_scripts")
NUMBER_INPUTS = ("seed", "greeting", "context_length", "response_length")
FLAG_INPUTS = ("allow_scripts",)
INPUTS = (*FILE_INPUTS, *FILES_INPUTS, *TEXT_INPUTS, *NUMBER_INPUTS, *FLAG_INPUTS, "chat", "platforms")
"""The inputs of a test, also allowed in a file's ``defaults``."""
EXPECTATIONS = ("fires", "stays_out", "contains", "lacks", "max_tokens", "macros", "scripts")
SCRIPT_KEYS = ("text", "placement", "gives")
PLACEMENTS = ("user_input", "ai_output", "slash_command", "world_info", "reasoning", "prompt", "display")
"""Where scripts run: the last two in RisuAI only, the three before them in SillyTavern only."""
ROLES = ("system", "user", "assistant")
SPEAKERS = ("user", "char")


class CaseFileError(FileFormatError):
    """A test file cannot be read; the message names the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExpectation:
    """A text in the prompt, and where: its role, how many chat messages follow it, what comes before or after it."""

    text: str
    """The text to look for."""
    role: str | None = None
    """The role of the message it must be in; None for any."""
    depth: int | None = None
    """How many messages of the chat must follow it; None for any number."""
    before: str | None = None
    """A text that must come after it."""
    after: str | None = None
    """A text that must come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptExpectation:
    """The expected result of the regex scripts for a text at a placement."""

    text: str
    gives: str
    placement: str = "ai_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What a test expects: entries that fire or not, texts in the prompt or not, its size, values of macros."""

    fires: Sequence[str] = ()
    """Titles or ids of lore entries that must be in the prompt."""
    stays_out: Sequence[str] = ()
    """Titles or ids of lore entries that must not be in the prompt."""
    contains: Sequence[TextExpectation] = ()
    """Texts that must be in the prompt."""
    lacks: Sequence[TextExpectation] = ()
    """Texts that must not be in the prompt."""
    max_tokens: int | None = None
    """The maximum tokens of the prompt."""
    macros: Sequence[tuple[str, str]] = ()
    """Texts with macros and what they must expand to."""
    scripts: Sequence[ScriptExpectation] = ()
    """Expected results of regex scripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCase:
    """One test on one platform: the inputs of a build and what the prompt must be like.

    ``inputs`` has the files as paths and everything else as it was written; ``chat`` is the chat so far as pairs of
    speaker (``user`` or ``char``) and text, or the path of a chat file.
    """

    name: str
    """The name of the test."""
    platform: PlatformName
    """The platform that builds the prompt."""
    inputs: Mapping[str, object]
    chat: Path | Sequence[tuple[str, str]] | None
    expect: Expectations
    """What must hold for the prompt."""


def read_cases(path: str | Path, *, warn: Warn = log_warning) -> list[PromptCase]:
    """Read a test file.

    Args:
        path: The file; the paths in it are relative to its folder.
        warn: Called with values that are not read as written.

    Raises:
        CaseFileError: The file is not a test file.
    """
    path = Path(path)
    try:
        value = parse_yaml(path.read_bytes(), DEFAULT_LIMITS, warn)
    except OSError as error:
        raise CaseFileError(f"{path}: {error.strerror}") from error
    except FileFormatError as error:
        raise CaseFileError(f"{path}: {error}") from error
    return [*_Reader(path).cases(value)]


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path

    def cases(self, value: object) -> Iterable[PromptCase]:
        file = self.mapping(value, "the file", ("defaults", "tests"))
        defaults = self.mapping(file.get("defaults") or {}, "defaults", INPUTS)
        tests = file.get("tests")
        if not is_sequence(tests) or not tests:
            self.refuse("tests", "a list of tests")
        for number, test in enumerate(tests, 1):
            where = f"test {number}"
            given = self.mapping(test, where, ("name", "expect", *INPUTS))
            name = self.text(given.get("name") or where, f"{where}: name")
            yield from self.case(name, {**defaults, **given})

    def case(self, name: str, given: Mapping[str, object]) -> Iterable[PromptCase]:
        where = f"test {name!r}"
        inputs: dict[str, object] = {}
        for key in FILE_INPUTS:
            if given.get(key) is not None:
                inputs[key] = self.file(given[key], f"{where}: {key}")
        for key in FILES_INPUTS:
            if given.get(key) is not None:
                inputs[key] = [self.file(each, f"{where}: {key}") for each in self.listed(given[key])]
        for key in TEXT_INPUTS:
            if given.get(key) is not None:
                inputs[key] = self.text(given[key], f"{where}: {key}")
        for key in NUMBER_INPUTS:
            if given.get(key) is not None:
                inputs[key] = self.number(given[key], f"{where}: {key}")
        for key in FLAG_INPUTS:
            if given.get(key) is not None:
                inputs[key] = given[key] if isinstance(given[key], bool) else self.refuse(key, "true or false")
        expect = self.expectations(given.get("expect"), where)
        chat = self.chat(given.get("chat"), where)
        for platform in self.platforms(given.get("platforms"), where):
            yield PromptCase(name=name, platform=platform, inputs=inputs, chat=chat, expect=expect)

    def platforms(self, value: object, where: str) -> Sequence[PlatformName]:
        if value is None:
            return PLATFORMS[:1]
        listed = self.listed(value)
        if not listed or any(each not in PLATFORMS for each in listed):
            self.refuse(f"{where}: platforms", f"a list of {' and '.join(PLATFORMS)}")
        return cast("Sequence[PlatformName]", tuple(dict.fromkeys(listed)))

    def chat(self, value: object, where: str) -> Path | Sequence[tuple[str, str]] | None:
        if value is None:
            return None
        if isinstance(value, str):
            return self.file(value, f"{where}: chat")
        if not is_sequence(value):
            self.refuse(f"{where}: chat", "a file or a list")
        lines: list[tuple[str, str]] = []
        for number, line in enumerate(value, 1):
            place = f"{where}: chat line {number}"
            if isinstance(line, str):
                lines.append(("user", line))
                continue
            spoken = [*self.mapping(line, place, SPEAKERS).items()]
            if len(spoken) != 1:
                self.refuse(place, "user: … or char: …")
            lines.append((spoken[0][0], self.text(spoken[0][1], place)))
        return tuple(lines)

    def expectations(self, value: object, where: str) -> Expectations:
        given = self.mapping(value, f"{where}: expect", EXPECTATIONS)
        if not any(each is not None for each in given.values()):
            self.refuse(f"{where}: expect", f"at least one of {', '.join(EXPECTATIONS)}")
        macros = self.mapping(given.get("macros") or {}, f"{where}: macros", None)
        tokens = given.get("max_tokens")
        return Expectations(
            fires=self.names(given.get("fires"), f"{where}: fires"),
            stays_out=self.names(given.get("stays_out"), f"{where}: stays_out"),
            contains=self.texts(given.get("contains"), f"{where}: contains"),
            lacks=self.texts(given.get("lacks"), f"{where}: lacks"),
            max_tokens=None if tokens is None else self.number(tokens, f"{where}: max_tokens"),
            macros=tuple((key, self.text(each, f"{where}: macros")) for key, each in macros.items()),
            scripts=tuple(self.script(each, f"{where}: scripts") for each in self.listed(given.get("scripts"))),
        )

    def texts(self, value: object, where: str) -> tuple[TextExpectation, ...]:
        return tuple(self.text_expectation(each, where) for each in self.listed(value))

    def text_expectation(self, value: object, where: str) -> TextExpectation:
        if not is_mapping(value):
            return TextExpectation(text=self.text(value, where))
        given = self.mapping(value, where, tuple(TextExpectation.__slots__))
        role, depth = given.get("role"), given.get("depth")
        if role is not None and role not in ROLES:
            self.refuse(f"{where}: role", f"one of {', '.join(ROLES)}")
        return TextExpectation(
            text=self.text(given.get("text"), f"{where}: text"),
            role=None if role is None else str(role),
            depth=None if depth is None else self.number(depth, f"{where}: depth"),
            before=None if given.get("before") is None else self.text(given["before"], f"{where}: before"),
            after=None if given.get("after") is None else self.text(given["after"], f"{where}: after"),
        )

    def script(self, value: object, where: str) -> ScriptExpectation:
        given = self.mapping(value, where, SCRIPT_KEYS)
        placement = given.get("placement", "ai_output")
        if placement not in PLACEMENTS:
            self.refuse(f"{where}: placement", f"one of {', '.join(PLACEMENTS)}")
        return ScriptExpectation(
            text=self.text(given.get("text"), f"{where}: text"),
            gives=self.text(given.get("gives"), f"{where}: gives"),
            placement=str(placement),
        )

    def mapping(self, value: object, where: str, known: Sequence[str] | None) -> Mapping[str, object]:
        if not is_mapping(value):
            self.refuse(where, "a mapping" if known is None else f"a mapping with {', '.join(known)}")
        for key in value if known is not None else ():
            if key not in (known or ()):
                near = difflib.get_close_matches(str(key), known or (), n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known or ())}"
                raise CaseFileError(f"{self.path}: {where} has no {key!r}; {hint}")
        return value

    def names(self, value: object, where: str) -> tuple[str, ...]:
        return tuple(self.text(each, where) for each in self.listed(value))

    def listed(self, value: object) -> Sequence[object]:
        return () if value is None else value if is_sequence(value) else (value,)

    def text(self, value: object, where: str) -> str:
        """Read a text; a number counts as text, because an entry may be called 7."""
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            self.refuse(where, "a text")
        return str(value)

    def number(self, value: object, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(where, "a whole number")
        return value

    def file(self, value: object, where: str) -> Path:
        found = self.path.parent / self.text(value, where)
        try:
            there = found.exists()
        except (OSError, ValueError):  # no file can have such a name
            there = False
        if not there:
            raise CaseFileError(f"{self.path}: {where} names {str(value)!r:.200}, which is not there")
        return found

    def refuse(self, where: str, wanted: str) -> NoReturn:
        raise CaseFileError(f"{self.path}: {where} must be {wanted}")


_ROOM = 1.1
"""How much larger than now the prompt may get before a recorded test fails."""


def record_case(
    name: str, inputs: Mapping[str, Json], plan: Plan, rows: Sequence[LoreRow], *, warn: Warn = log_warning
) -> str:
    """Write a test file with one test that a plan passes: which entries fire, and how large it may be.

    Args:
        name: The name of the test.
        inputs: The inputs of the plan, as the file writes them.
        plan: The prompt as it is now.
        rows: The entries of its lore.
        warn: Called with values that YAML cannot represent.
    """
    expect: JsonObject = {}
    for key, active in (("fires", True), ("stays_out", False)):
        titles: list[Json] = [row.title or row.id for row in rows if row.active is active]
        if titles:
            expect[key] = titles
    total = plan.explain().total_tokens
    if total is not None:
        expect["max_tokens"] = math.ceil(total * _ROOM)
    test: JsonObject = {"name": name, **inputs, "expect": expect}
    return dump_yaml({"tests": [test]}, warn)


_TEXT: JsonObject = {"type": ["string", "number"]}
_NUMBER: JsonObject = {"type": "integer"}


def case_schema() -> JsonObject:
    """Build the schema of ``*.tavern.yaml``."""
    inputs = _inputs()
    test: JsonObject = {
        **_object({"name": _TEXT, **inputs, "expect": _expectations()}),
        "required": ["expect"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tests of cards, lorebooks and presets",
        **_object({"defaults": _object(inputs), "tests": {"type": "array", "minItems": 1, "items": test}}),
        "required": ["tests"],
    }


def _inputs() -> JsonObject:
    found: JsonObject = {}
    for name in (*FILE_INPUTS, *TEXT_INPUTS):
        found[name] = _TEXT
    for name in FILES_INPUTS:
        found[name] = _one_or_more({"type": "string"})
    for name in NUMBER_INPUTS:
        found[name] = _NUMBER
    for name in FLAG_INPUTS:
        found[name] = {"type": "boolean"}
    line: Json = {"anyOf": [{"type": "string"}, _object({"user": _TEXT, "char": _TEXT})]}
    found["chat"] = {"anyOf": [{"type": "string"}, {"type": "array", "items": line}]}
    found["platforms"] = _one_or_more({"enum": [*PLATFORMS]})
    return found


def _expectations() -> JsonObject:
    text = _object({"text": _TEXT, "role": {"enum": [*ROLES]}, "depth": _NUMBER, "before": _TEXT, "after": _TEXT})
    script = _object({"text": _TEXT, "placement": {"enum": [*PLACEMENTS]}, "gives": _TEXT})
    return _object(
        {
            "fires": _one_or_more(_TEXT),
            "stays_out": _one_or_more(_TEXT),
            "contains": _one_or_more({"anyOf": [_TEXT, {**text, "required": ["text"]}]}),
            "lacks": _one_or_more({"anyOf": [_TEXT, {**text, "required": ["text"]}]}),
            "max_tokens": _NUMBER,
            "macros": {"type": "object", "additionalProperties": _TEXT},
            "scripts": _one_or_more({**script, "required": ["text", "gives"]}),
        }
    )


def _one_or_more(item: JsonObject) -> JsonObject:
    return {"anyOf": [item, {"type": "array", "items": item}]}


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": False, "properties": properties}
