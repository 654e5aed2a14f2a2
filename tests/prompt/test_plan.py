from __future__ import annotations

import pytest

from tavernkit.prompt import Block, Omission, Plan, RenderedText


def chat(content: str, **fields: object) -> Block:
    return Block(**{"role": "system", "content": content, "insertion_point": "in_chat", "depth": 2, **fields})  # type: ignore[arg-type]


def contents(plan: Plan) -> list[str]:
    return [message.content for message in plan.messages]


def test_neighbours_in_the_chat_are_merged() -> None:
    assert contents(Plan([chat(" a "), chat("b\n"), chat("  ")])) == ["a\nb"]


def test_wide_spaces_are_no_blanks_when_neighbours_are_merged() -> None:
    assert contents(Plan([chat("a"), chat("\u3000"), chat("\u00a0b")])) == ["a\n\u3000\n\u00a0b"]


@pytest.mark.parametrize(
    "changes",
    [
        {"role": "user"},
        {"depth": 3},
        {"order": 5},
        {"insertion_point": "relative"},
        {"attachments": [{"type": "image"}]},
        {"message_metadata": {"tool_call_id": "c"}},
    ],
)
def test_neighbours_that_differ_are_not_merged(changes: dict[str, object]) -> None:
    assert contents(Plan([chat("a"), chat("b", **changes)])) == ["a", "b"]


def test_disabled_blocks_do_not_reach_the_messages() -> None:
    plan = Plan([Block("user", "a"), Block("user", "b", enabled=False)])
    assert contents(plan) == ["a"]
    assert (plan.size, plan.enabled_size) == (2, 1)


def test_system_messages_are_squashed_for_openai_only_when_asked() -> None:
    plan = Plan(
        [
            Block("system", "a"),
            Block("system", ""),
            Block("system", "b"),
            Block("system", "c", slot="new_chat_prompt"),
            Block("system", "d"),
            Block("system", "e", name="x"),
        ]
    )
    assert [m["content"] for m in plan.to_messages(squash_system_messages=True)] == ["a\nb", "c", "d", "e"]
    assert len(plan.to_messages()) == 6
    assert len(plan.to_messages("mistral", squash_system_messages=True)) == 6


def test_blocks_can_be_put_around_a_slot() -> None:
    plan = Plan([Block("user", "a", slot="history"), Block("user", "b", slot="history")])
    new = Block("system", "x")
    assert contents(plan.insert_before("history", new)) == ["x", "a", "b"]
    assert contents(plan.insert_after("history", new)) == ["a", "b", "x"]
    assert contents(plan.insert_before("nowhere", new)) == ["a", "b", "x"]
    assert contents(plan.append_block(new)) == ["a", "b", "x"]


def test_the_fingerprint_depends_on_what_is_sent_only() -> None:
    first = Plan([Block("user", "a")], llm_options={"x": 1, "y": 2})
    second = Plan([Block("user", "a"), Block("user", "b", enabled=False)], llm_options={"y": 2, "x": 1})
    assert first.fingerprint() == second.fingerprint()
    assert first.fingerprint() != first.replace(llm_options={"x": 2}).fingerprint()
    assert first.fingerprint() != first.fingerprint("anthropic")


def test_a_rendered_plan_gives_its_text_to_the_text_dialect() -> None:
    plan = Plan([Block("user", "a")], rendered=RenderedText("### a", stop_sequences=("\n",)))
    assert plan.to_messages("text") == {"prompt": "### a", "stop_sequences": ["\n"]}


def test_the_explanation_names_source_cost_and_reason() -> None:
    plan = Plan(
        [
            Block("system", "You are Aria.", metadata={"source": {"kind": "preset prompt", "id": "main"}}),
            Block("user", "never sent", enabled=False, metadata={"source": "history"}),
        ],
        omissions=[Omission("lore_entry", "7", "its cooldown lasts until message 9", name="Dragon", tokens=12)],
        warnings=["something odd"],
        count_tokens=len,
    )
    explanation = plan.explain()
    assert explanation.blocks[0].source == "preset prompt main"
    assert explanation.blocks[0].tokens == 13
    assert explanation.total_tokens == 13
    assert [row.reason for row in explanation.left_out] == ["switched off", "its cooldown lasts until message 9"]
    text = str(explanation)
    for part in ("preset prompt main", "You are Aria.", "lore entry Dragon", "cooldown", "something odd", "13 tokens"):
        assert part in text
    assert explanation.to_dict()["left_out"][1]["tokens"] == 12  # type: ignore[index]


def test_a_title_of_several_lines_takes_one_row_of_the_table() -> None:
    text = str(Plan([Block("user", "Hi.", metadata={"source": {"title": "two\n lines"}})]).explain())
    assert "  two lines  " in text.splitlines()[2]


def test_the_dump_shows_what_is_not_default() -> None:
    text = Plan([chat("x", id="0123456789", order=3, slot="an", enabled=False, tags=["t"])]).debug_dump()
    assert text == "[system] (an) [DISABLED] {01234567 depth=2 order=3 tags=t}\nx"


def test_a_plan_prints_in_a_line() -> None:
    shown = repr(Plan([Block("user", "a secret of two pages")]))
    assert shown == "<Plan: 1 block; print(plan.explain()) shows them>"


def test_notebooks_show_the_explanation_and_run_nothing_of_it() -> None:
    plan = Plan(
        [Block("user", "<script>alert(1)</script>")],
        omissions=[Omission("prompt", "x", "switched <b>off</b>")],
        warnings=["<i>careful</i>"],
    )
    page = plan._repr_html_()
    assert page == plan.explain()._repr_html_()
    assert "&lt;script&gt;" in page
    assert not any(tag in page for tag in ("<script", "<b>off", "<i>"))
    assert "Left out" in page
