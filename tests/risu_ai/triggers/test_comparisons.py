"""Comparisons of conditions and of blocks: where both sides are equal, and where one is no number."""

from __future__ import annotations

import pytest

from tests.risu_ai.triggers.programs import run, setvar, trigger


@pytest.mark.parametrize(
    ("left", "operator", "right", "holds"),
    [
        *(("6", ">", "5", True), ("5", ">", "5", False), ("x", ">", "5", True), ("5", ">", "x", True)),
        *(("4", "<", "5", True), ("5", "<", "5", False), ("x", "<", "5", True), ("5", "<", "x", True)),
        *(("5", ">=", "5", True), ("4", ">=", "5", False), ("x", ">=", "5", True)),
        *(("5", "<=", "5", True), ("6", "<=", "5", False), ("x", "<=", "5", True)),
        *(("5", "=", "5.0", False), ("5", "!=", "5.0", True), ("1", "true", "", True), ("2", "true", "", False)),
        *(("null", "null", "", True), ("", "null", "", False), ("a", "like", "b", True)),
    ],
)
def test_a_condition_compares(left: str, operator: str, right: str, holds: bool) -> None:
    condition = {"type": "value", "var": left, "operator": operator, "value": right}
    assert run(trigger(setvar("seen", "1"), conditions=[condition]))["seen"] == ("1" if holds else None)


@pytest.mark.parametrize(
    ("source", "condition", "target", "holds"),
    [
        *(("6", ">", "5", True), ("5", ">", "5", False), ("x", ">", "5", False), ("5", ">", "x", False)),
        *(("4", "<", "5", True), ("5", "<", "5", False), ("x", "<", "5", False)),
        *(("5", ">=", "5", True), ("x", ">=", "5", False), ("5", "<=", "5", True), ("5", "<=", "x", False)),
        *(("5", "=", "5.0", True), ("", "=", "0", True), ("x", "=", "5", False), ("x", "=", "x", True)),
        *(("0x1F", "=", "31", True), ("5", "!=", "5.0", False), ("x", "!=", "y", True)),
        *(("1", "≒", "1.00005", True), ("0", "≒", "0.0001", False), ("a B", "≒", "AB", True), ("1", "≒", "x", False)),
        *(("x", "≒", "1", False), ("1", "≡", "true", True), ("0", "≡", "false", True), ("true", "≡", "1", False)),
        *(("a", "∈", '["a"]', True), ("1", "∈", "[1]", False), ('"abc"', "∋", "b", True), ("a", "∉", "{}", True)),
        *(("[]", "∌", "a", True), ("a", "like", "a", False)),
    ],
)
def test_a_block_compares(source: str, condition: str, target: str, holds: bool) -> None:
    compare = {"type": "v2IfAdvanced", "source": source, "sourceType": "value", "condition": condition, "indent": 0}
    found = run(
        trigger(
            {**compare, "target": target, "targetType": "value"},
            {**setvar("seen", "1"), "indent": 1},
            {"type": "v2EndIndent", "indent": 1},
        )
    )
    assert found["seen"] == ("1" if holds else None)


def test_a_local_variable_that_is_set_to_nothing_reads_as_null() -> None:
    effects = [
        {"type": "v2DeclareLocalVar", "var": "a", "value": "1", "valueType": "value", "indent": 0},
        {"type": "v2GetFirstMessage", "outputVar": "a", "indent": 0},
        {"type": "v2SetVar", "operator": "=", "var": "seen", "value": "a", "valueType": "var", "indent": 0},
    ]
    found = run(trigger(*effects), firstMessage=None)
    assert found["seen"] == "null"


def test_a_command_runs_triggers_on_the_stored_chat() -> None:
    found = run(
        trigger({"type": "command", "value": "/trigger sub"}),
        trigger(setvar("seen", "1"), {"type": "impersonate", "role": "user", "value": "hi"}, name="sub", mode="manual"),
    )
    assert found.result.stored.variables == {"seen": "1"}
    assert [message.data for message in found.result.stored.context.chat.messages] == ["hi"]
    assert found.result.chat.messages == ()
