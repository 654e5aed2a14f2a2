"""Reply lines, messages and examples of instruct mode, where the recordings leave a choice."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ContextTemplate, InstructTemplate, select_for_model
from tavernkit.silly_tavern._chat.output_cleanup import template_stop_strings
from tavernkit.silly_tavern._templates.formatting import (
    FIRST,
    LAST,
    ExampleNames,
    InstructFormatter,
    Line,
    format_examples,
)

TEMPLATE = InstructTemplate(
    input_sequence="<u>", output_sequence="<b> ", last_output_sequence="<lb>", last_input_sequence="<lu>"
)


def formatter(*, in_group: bool = False, **changes: Any) -> InstructFormatter:
    template = TEMPLATE.replace(**changes)
    return InstructFormatter(template, "Mira", "Lyra", lambda text: text.replace("{{char}}", "Lyra"), in_group)


@pytest.mark.parametrize(
    ("changes", "given", "line"),
    [
        ({}, {}, "\n<lb>\n"),
        ({"in_group": True}, {}, "\n<lb>\n Lyra:"),
        ({"in_group": True, "names_behavior": "none"}, {}, "\n<lb>\n"),
        ({"in_group": True, "output_sequence": "<b>"}, {}, "\n<lb>\nLyra:"),
        ({"in_group": True, "last_output_sequence": "<lb>\t"}, {}, "\n<lb>\t\nLyra:"),
        ({"in_group": True, "last_output_sequence": ""}, {}, "\n<b> \nLyra:"),
        ({"in_group": True}, {"name": ""}, "\n<lb>\n"),
        ({}, {"bias": " B "}, "\n<lb>\nB\n"),
        ({"in_group": True}, {"bias": " B "}, "\n<lb>\n Lyra: B"),
        ({"in_group": True, "wrap": False}, {"bias": " B "}, "<lb> Lyra: B "),
        ({"wrap": False}, {"bias": " B "}, "<lb>B "),
        ({"wrap": False, "last_output_sequence": ""}, {}, "<b> "),
        ({"names_behavior": "always"}, {"impersonate": True, "bias": " B", "name": "Mira"}, "\n<lu>\nMira:"),
        ({"names_behavior": "always"}, {"quiet": True}, "<b>\n"),
        ({"names_behavior": "always"}, {"quiet": True, "loud": True}, "<lb>\n Lyra:"),
        ({"last_output_sequence": "<{{name}} {{char}}>"}, {"name": ""}, "\n<System Lyra>\n"),
        ({"last_output_sequence": "<{{name}} {{char}}>", "macro": False}, {}, "\n<{{name}} {{char}}>\n"),
    ],
)
def test_a_reply_line(changes: dict[str, Any], given: dict[str, Any], line: str) -> None:
    assert formatter(**changes).reply_line(**{"name": "Lyra", **given}) == line


@pytest.mark.parametrize(
    ("changes", "line", "place", "written"),
    [
        ({}, Line("Lyra", "x"), LAST, "<lb>\nx\n"),
        ({}, Line("Lyra", "x"), FIRST, "<b> \nx\n"),
        ({"in_group": True}, Line("Bram", "x"), 0, "<b> \nBram: x\n"),
        ({"in_group": True}, Line("Mira", "x", is_user=True), LAST, "<lu>\nx\n"),
        ({}, Line("Bram", "x", forced_avatar=True), 0, "<b> \nBram: x\n"),
        ({"names_behavior": "none"}, Line("Bram", "x", forced_avatar=True), 0, "<b> \nx\n"),
        ({"names_behavior": "always"}, Line("", "x", is_user=True), 0, "<u>\nx\n"),
        ({"names_behavior": "always"}, Line("Bram", "x", narrator=True), LAST, "x\n"),
        ({"system_same_as_user": True, "input_suffix": "!"}, Line("", "x", narrator=True), LAST, "<u>\nx!"),
        ({"input_sequence": "", "wrap": False}, Line("Mira", "x", is_user=True), 0, "x"),
        ({"input_sequence": "<$&{{name}}>"}, Line("a$&b", "x", is_user=True), 0, "<$&a{{name}}b>\nx\n"),
        ({"output_suffix": "{{name}}"}, Line("", "x"), 0, "<b> \nxSystem"),
    ],
)
def test_a_message(changes: dict[str, Any], line: Line, place: int, written: str) -> None:
    found = formatter(**changes).message(line, place)
    assert found.text == written
    assert found.unfinished.endswith(line.text)


@pytest.mark.parametrize(
    ("changes", "in_group", "pieces"),
    [
        ({}, False, ["H\n", "<u>\nMira: hi\n", "<b> \nyes\nBram: no\n"]),
        ({"names_behavior": "none"}, False, ["H\n", "<u>\nhi\n", "<b> \nyes\nBram: no\n"]),
        ({"names_behavior": "always"}, False, ["H\n", "<u>\nMira: hi\n", "<b> \nLyra: yes\nBram: no\n"]),
        ({}, True, ["H\n", "<u>\nMira: hi\n", "<b> \nBram: Lyra: yes\n no\n"]),
        ({"names_behavior": "none"}, True, ["H\n", "<u>\nhi\n", "<b> \nLyra: yes\n no\n"]),
        ({"macro": False}, False, ["H\n", "<u>\nMira: hi", "<b> \nyes\nBram: no"]),
        ({"wrap": False}, False, ["H\n", "<u>Mira: hi", "<b> yes\nBram: no"]),
        ({"skip_examples": True}, False, ["H\nMira: hi\nLyra: yes\nBram: no\n"]),
    ],
)
def test_examples(changes: dict[str, Any], in_group: bool, pieces: list[str]) -> None:
    assert examples("<START>\nMira: hi\nLyra: yes\nBram: no\n", in_group=in_group, **changes) == pieces


@pytest.mark.parametrize("changes", [{}, {"skip_examples": True}])
def test_examples_that_nobody_speaks_keep_their_text_under_the_heading(changes: dict[str, Any]) -> None:
    assert examples("<start>\nprose <START>\n", **changes) == ["H\nprose <START>\n"]


def examples(block: str, *, in_group: bool = False, **changes: Any) -> list[str]:
    names = ExampleNames(
        user="Mira",
        character="Lyra",
        members=("Lyra", "Bram"),
        in_group=in_group,
        written_user="Mira",
        written_character="Lyra",
    )
    (pieces,) = format_examples([block], TEMPLATE.replace(**changes), names, "H\n", str)
    return pieces


def test_stop_strings_of_templates() -> None:
    instruct = InstructTemplate(
        stop_sequence="</s>\n \n{{name}}",
        input_sequence="{{name}}>",
        output_sequence="{{name}}>\n<b>",
        first_output_sequence="<b>",
        last_output_sequence="{{char}}>",
        system_sequence="{{name}}",
        first_input_sequence="no",
        last_input_sequence="no",
        last_system_sequence="<ls>",
    )
    context = ContextTemplate(chat_start="{{char}}", example_separator="", use_stop_strings=True)
    lines = ["</s>", "{{name}}", "Mira>", "Lyra>", "<b>", "Lyra>", "System", "<ls>"]

    def stops(**changes: Any) -> list[str]:
        given = {"user_name": "Mira", "character_name": "Lyra", "expand": lambda text: text.replace("{{char}}", "Lyra")}
        return template_stop_strings(instruct.replace(**changes), context, **given)

    assert stops() == [*(f"\n{line}" for line in lines), "\nLyra"]
    assert stops(wrap=False, macro=False)[:-1] == [
        line.replace("Lyra>", "{{char}}>") if n == 5 else line for n, line in enumerate(lines)
    ]
    assert stops(sequences_as_stop_strings=False) == ["\n</s>", "\n{{name}}", "\nLyra"]
    assert stops(enabled=False) == ["\nLyra"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"names": False, "names_force_groups": True}, {"names_behavior": "force"}),
        ({"names": False}, {"names_behavior": "none"}),
        ({"names": 1, "names_force_groups": False, "names_behavior": "none"}, {"names_behavior": "always"}),
        ({"names_force_groups": True}, {"names_behavior": "force"}),
        ({"separator_sequence": None, "output_suffix": "x"}, {"output_suffix": ""}),
        ({"separator_sequence": "s", "output_suffix": "x"}, {"output_suffix": "s"}),
        ({"system_sequence_prefix": "a", "system_sequence_suffix": "b"}, {"system_sequence": ""}),
        ({"sequences_as_stop_strings": False}, {"sequences_as_stop_strings": False}),
        ({"skip_examples": True}, {"skip_examples": True, "system_same_as_user": False}),
    ],
)
def test_old_keys_of_a_template(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = InstructTemplate.migrated(old)
    assert {key: found[key] for key in new} == new
    gone = {"names", "names_force_groups", "separator_sequence", "system_sequence_prefix", "system_sequence_suffix"}
    assert not gone & found.keys()


def test_a_selected_template_leaves_what_it_does_not_say_and_what_is_no_part_of_one() -> None:
    live = InstructTemplate(
        name="live",
        output_sequence="O",
        output_suffix="S",
        wrap=False,
        macro=False,
        stop_sequence="X",
        input_suffix="I",
    )
    chosen = InstructTemplate.from_json({"name": "P", "input_sequence": "U", "enabled": False, "bind_to_context": True})
    after = live.with_preset(chosen)
    assert (after.name, after.input_sequence, after.input_suffix) == ("P", "U", "")
    assert (after.output_sequence, after.output_suffix, after.stop_sequence) == ("O", "S", "X")
    assert (after.wrap, after.macro, after.enabled, after.bind_to_context) == (False, False, True, False)


def test_a_template_named_as_the_context_counts_only_when_they_are_bound() -> None:
    presets = [InstructTemplate.from_json({"name": "B"})]
    assert not select_for_model("gpt", InstructTemplate(), presets, context_name="B").found
    assert select_for_model("gpt", InstructTemplate(bind_to_context=True), presets, context_name="B").found
