"""Runs authors' tests: each builds a prompt like other commands, and compares it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from tavernkit._values import is_mapping
from tavernkit.authoring import CaseFileError, CaseResult, Check, PromptCase, check_plan, read_cases
from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.inputs import Prepared, prepare, scripts_of
from tavernkit.cli.options import Platform
from tavernkit.errors import TavernKitError
from tavernkit.prompt._plan import Plan
from tavernkit.report import lore_rows

if TYPE_CHECKING:
    from tavernkit.authoring._case_file import ScriptExpectation
    from tavernkit.risu_ai._regex_scripts import ScriptMode

_MARK = "\u2063tavernkit\u2063"
"""Marks around a macro in a message, so that its value can be found in the prompt."""
_MARKED = re.compile(f"{_MARK}(.*?){_MARK}", re.DOTALL)
MAX_ROWS = 1_000_000
"""The number of entries to list: all, including those without any match."""
_RISU_MODES: Mapping[str, ScriptMode] = {
    "user_input": "editinput",
    "ai_output": "editoutput",
    "prompt": "editprocess",
    "display": "editdisplay",
}
_ROLES = {"user": "user", "char": "assistant"}


def run_file(path: Path) -> Iterator[CaseResult]:
    """Run all tests of a file; an unreadable file is a result with an error."""
    try:
        cases = read_cases(path)
    except TavernKitError as error:
        yield CaseResult(path, str(path), "", error=str(error).removeprefix(f"{path}: "))
        return
    for case in cases:
        try:
            yield CaseResult(path, case.name, case.platform, run_case(case))
        except (TavernKitError, typer.BadParameter) as error:
            yield CaseResult(path, case.name, case.platform, error=str(error))


def run_case(case: PromptCase) -> list[Check]:
    """Build the prompt of a test and compare it with what is expected."""
    with tempfile.TemporaryDirectory() as folder:
        options = _options(case, Path(folder))
        prepared = prepare(options)
        history = _history(case)
        plan = prepared.build(**history)
        rows = lore_rows(plan.lore_result, limit=MAX_ROWS)
        checks = check_plan(case.expect, plan, rows)
        for macro, value in case.expect.macros:
            marked = prepared.build(**history, message=f"{_MARK}{macro}{_MARK}")
            checks.append(_macro(macro, value, marked))
        if case.expect.scripts:
            risu_ai = options.chosen_platform is Platform.RISU_AI
            checks += _risu_scripts(case, prepared, history) if risu_ai else _scripts(case, options)
    return checks


def _options(case: PromptCase, folder: Path) -> BuildOptions:
    given = dict(case.inputs)
    platform = Platform(case.platform)
    now = given.pop("now", None)
    card = given.pop("card", None)
    fields: dict[str, object] = {
        "card": stub_card(folder) if card is None else card,
        "platform": platform,
        "book": given.pop("books", None),
        "module": given.pop("modules", None) if platform is Platform.RISU_AI else None,
        "regex_script": given.pop("regex_scripts", None) if platform is Platform.SILLY_TAVERN else None,
        "chat": str(case.chat) if isinstance(case.chat, Path) else None,
        "now": None if now is None else _moment(str(now)),
        "preset": str(given.pop("preset")) if "preset" in given else None,
    }
    for name in ("modules", "regex_scripts"):
        given.pop(name, None)
    if platform is Platform.RISU_AI:
        given.pop("allow_scripts", None)
    # A test of a prompt that does not fit checks what fits.
    return BuildOptions(**fields, **given, on_overflow="return")  # pyright: ignore[reportArgumentType]  # checked by the reader


def stub_card(folder: Path) -> Path:
    """Return a card with only a name, for tests of books and presets."""
    path = folder / "character.json"
    path.write_text(json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Character"}}))
    return path


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise CaseFileError(f"now must be a time such as 2031-03-05T14:07:09Z, not {text!r}") from None


def _history(case: PromptCase) -> dict[str, object]:
    if case.chat is None or isinstance(case.chat, Path):
        return {}
    return {"history": [{"role": _ROLES[speaker], "content": text} for speaker, text in case.chat]}


def _macro(macro: str, value: str, plan: Plan) -> Check:
    what = f"{macro} gives {value!r}"
    texts = (str(message.get("content")) for message in plan.to_messages() if is_mapping(message))
    found = next((found[1] for text in texts if (found := _MARKED.search(text))), None)
    if found is None:
        return Check(what, passed=False, reason="its message is not in the prompt")
    return Check(what, found == value, "" if found == value else f"it gives {found!r}")


def _scripts(case: PromptCase, options: BuildOptions) -> Iterator[Check]:
    from tavernkit.silly_tavern import MacroEngine, MacroEnvironment

    scripts, name = scripts_of(options)
    engine = MacroEngine()
    environment = MacroEnvironment(user_name=options.user or "User", character_name=name)

    def expand(text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
        return engine.expand(text, environment, character_name=character, post_process=escape)

    for expected in case.expect.scripts:
        yield _script(expected, lambda text, at: scripts.apply(text, at, expand=expand), scripts.active)


def _risu_scripts(case: PromptCase, prepared: Prepared, history: dict[str, Any]) -> Iterator[Check]:
    """Run the scripts of the preset, the character and its modules, as RisuAI does for each message."""
    from tavernkit.risu_ai import Builder
    from tavernkit.risu_ai._regex_scripts import RegexScriptRunner, scripts_of
    from tavernkit.stores import InMemoryVariablesStore

    assert isinstance(prepared.builder, Builder)
    context = prepared.builder.make_context(**history)
    preset = context.preset if context.preset is not None else context.settings.preset
    texts = context.for_texts(preset, context.owner, InMemoryVariablesStore())
    scripts, runner = scripts_of(texts, preset.regex), RegexScriptRunner()
    for expected in case.expect.scripts:
        what, mode = _what(expected), _RISU_MODES.get(expected.placement)
        if mode is None:
            yield Check(what, passed=False, reason=f"RisuAI has no placement {expected.placement!r}")
        elif not any(script.type == mode for script in scripts):
            yield Check(what, passed=False, reason=f"no script of the card, preset or modules is an {mode}")
        else:
            made = runner.run(expected.text, mode, scripts, texts).text
            yield Check(what, made == expected.gives, "" if made == expected.gives else f"they make {made!r}")


def _what(expected: ScriptExpectation) -> str:
    return f"the scripts make {expected.gives!r} of {expected.text!r}"


def _script(expected: ScriptExpectation, apply: Callable[[str, int], str], active: Sequence[object]) -> Check:
    from tavernkit.silly_tavern import RegexPlacement

    what = _what(expected)
    if expected.placement.upper() not in RegexPlacement.__members__:
        return Check(what, passed=False, reason=f"SillyTavern has no placement {expected.placement!r}")
    if not active:
        return Check(what, passed=False, reason="no script is active: name regex_scripts, or allow_scripts: true")
    placement = cast("int", RegexPlacement[expected.placement.upper()])
    made = apply(expected.text, placement)
    return Check(what, made == expected.gives, "" if made == expected.gives else f"they make {made!r}")
