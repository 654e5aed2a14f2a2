from collections.abc import Callable

import pytest

from tavernkit.errors import StrictModeError, WarningLog
from tavernkit.silly_tavern import Builder, ChatMessage
from tavernkit.silly_tavern._scripts import regex_replacement as room
from tavernkit.silly_tavern._scripts.regex_replacement import RegexScriptError, escape_macro_value, regex_from_string
from tavernkit.silly_tavern._scripts.regex_scripts import (
    MacroMode,
    RegexPlacement,
    RegexScript,
    RegexScripts,
    migrate_script,
    read_scripts,
)
from tests.quickness import linear_time
from tests.silly_tavern.scene import inputs

JSON = {
    "id": "r1",
    "scriptName": "swap",
    "findRegex": "/cat/g",
    "replaceString": "dog",
    "placement": [2],
    "mystery": {"kept": True},
}


class Macros:
    """Knows `{{char}}` only; notes what it was asked."""

    def __call__(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        value = character or "Ann (a+)"
        return text.replace("{{char}}", escape(value) if escape else value)


MACROS = Macros()


def script(**fields: object) -> RegexScript:
    return RegexScript.from_json({**JSON, **fields})


def run(text: str, **fields: object) -> str:
    return script(**fields).run(text, expand=MACROS, warn=WarningLog(strict=True))


def test_json_is_kept_with_everything_in_it() -> None:
    assert script().to_json() == JSON
    changed = script().to_json()
    changed["id"] = "other"
    assert script().id == "r1"


def test_fields_of_the_wrong_type_are_harmless() -> None:
    odd = RegexScript.from_json(
        {"findRegex": 5, "replaceString": None, "trimStrings": "x", "placement": 2, "minDepth": "x", "maxDepth": -1}
    )
    assert (odd.find_regex, odd.replace_string, odd.trim_strings, odd.placement) == ("", "", (), ())
    assert (odd.min_depth, odd.max_depth, odd.macro_mode) == (None, None, MacroMode.NONE)
    assert odd.run("text", expand=MACROS) == "text"


def test_macro_values_in_patterns_can_be_escaped() -> None:
    assert run("Ann (a+)!", findRegex="/{{char}}/", substituteRegex=2) == "dog!"
    assert run("Ann aaa!", findRegex="/{{char}}/", substituteRegex="1") == "dog!"
    assert escape_macro_value("a.b/\n-") == "a\\.b\\/\\n-"


def test_trim_strings_see_the_overridden_character() -> None:
    scripts = RegexScripts((script(findRegex="/.+/", replaceString="$0|{{char}}", trimStrings=["{{char}}: "]),))
    text = scripts.apply("Bo: hi", RegexPlacement.AI_OUTPUT, expand=MACROS, character="Bo")
    assert text == "hi|Ann (a+)"


def test_numbers_beyond_the_groups_are_offset_and_input() -> None:
    assert run("🐉xcat", findRegex="/(c)at/", replaceString="[$1,$2,$3,$4,$99999999]") == "🐉x[c,3,🐉xcat,,]"
    assert run("xcat", findRegex="/(c)at/", replaceString="[$000001,$00000]") == "x[c,cat]"


def test_named_groups_object_is_no_text() -> None:
    named = script(findRegex="/(?<a>c)at/", replaceString="$4")
    with pytest.raises(RegexScriptError) as raised:
        named.run("cat", expand=MACROS, strict=True)
    assert raised.value.code == "type_error"
    warnings: list[str] = []
    assert named.run("cat", expand=MACROS, warn=warnings.append) == "cat"
    assert "'swap'" in warnings[0]


def test_invalid_pattern_is_reported_and_leaves_the_text() -> None:
    warnings: list[str] = []
    assert script(findRegex="/ca(t/").run("cat", expand=MACROS, warn=warnings.append) == "cat"
    assert "not a valid regular expression" in warnings[0]
    with pytest.raises(StrictModeError):
        run("cat", findRegex="/ca(t/")


def test_slow_pattern_is_reported_and_leaves_the_text() -> None:
    warnings: list[str] = []
    slow = script(findRegex="/(a+)+$/g")
    text = "a" * 40 + "!"
    assert slow.run(text, expand=MACROS, warn=warnings.append) == text
    assert len(warnings) == 1
    assert "'swap'" in warnings[0]


def test_script_that_is_slow_again_and_again_is_left_out_of_a_build() -> None:
    scripts = RegexScripts(
        (
            script(findRegex="/(a+)+$/g", scriptName="slow", promptOnly=True, placement=[2]),
            script(findRegex="/!/", replaceString="?", promptOnly=True, placement=[2]),
        )
    )
    history = [ChatMessage(name="Bel", mes=f"{'a' * 40}! {number}") for number in range(50)]
    builder = Builder(**inputs(history=history, regex_scripts=scripts))
    with linear_time():
        plan = builder.build(message="Go on.")
    assert "a? 49" in "".join(str(message.content) for message in plan.messages)
    assert ["'slow' keeps taking too long" in each for each in plan.warnings] == [False, True]


def test_script_that_cannot_be_read_is_told_once_a_build() -> None:
    scripts = RegexScripts((script(findRegex="/ca(t/", promptOnly=True, placement=[1, 2]),))
    builder = Builder(**inputs(history=[ChatMessage(name="Bel", mes="cat")] * 20, regex_scripts=scripts))
    assert [len(builder.build(message="Go on.").warnings) for _ in range(2)] == [1, 1]


def test_result_that_explodes_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_RESULT_CHARACTERS", 1000)
    warnings: list[str] = []
    text = "x" * 100
    explosive = script(findRegex="/x/g", replaceString="$2")
    assert explosive.run(text, expand=MACROS, warn=warnings.append) == text
    assert "more than 1000 characters" in warnings[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, "permanent"),
        ({"is_prompt": True}, "prompt, both"),
        ({"is_markdown": True}, "display, both"),
        ({"is_markdown": True, "is_prompt": True}, "prompt, display, both"),
        ({"is_edit": True}, ""),
        ({"is_edit": True, "is_prompt": True}, "both"),
    ],
)
def test_scripts_for_prompt_display_and_edit(flags: dict[str, bool], expected: str) -> None:
    scripts = {
        "permanent": script(),
        "prompt": script(promptOnly=True),
        "display": script(markdownOnly=True),
        "both": script(promptOnly=True, markdownOnly=True, runOnEdit=True),
    }
    names = [name for name, one in scripts.items() if one.applies_to(RegexPlacement.AI_OUTPUT, **flags)]
    assert ", ".join(names) == expected


def test_settings_decide_whose_scripts_are_allowed() -> None:
    owner = {"extensions": {"regex_scripts": [{**JSON, "findRegex": "/$/", "replaceString": "S"}]}}
    settings: dict[str, object] = {
        "regex": [{**JSON, "findRegex": "/$/", "replaceString": "G"}, "nonsense"],
        "character_allowed_regex": ["Ann.png"],
        "preset_allowed_regex": {"openai": ["Default"]},
    }
    warnings: list[str] = []

    def text(avatar: str, preset_name: str, **more: object) -> str:
        scripts = RegexScripts.from_settings(
            {**settings, **more},
            card_data=owner,
            avatar=avatar,
            preset=owner,
            preset_name=preset_name,
            api="openai",
            warn=warnings.append,
        )
        return scripts.apply("x", 2, expand=MACROS)

    assert text("Ann.png", "Default") == "xGSS"
    assert text("Bo.png", "Default") == "xGS"
    assert text("Bo.png", "Mine") == "xG"
    assert text("Bo.png", "Mine", disabledExtensions=["regex"]) == "x"
    assert "number 2 is left out" in warnings[0]


def test_no_settings_at_all_is_no_scripts() -> None:
    assert RegexScripts.from_settings({}).active == ()
    assert read_scripts(None, "nothing") == ()


def test_migration_fills_in_what_is_missing() -> None:
    migrated = migrate_script({"placement": None, "scriptName": "x"}, new_id=lambda: "new")
    assert migrated == {"id": "new", "placement": [], "scriptName": "x"}


def test_patterns_are_parsed_once() -> None:
    assert regex_from_string("/cat/gi") is regex_from_string("/cat/gi")
