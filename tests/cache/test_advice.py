"""Lint and explanations say what makes a prompt cache useless."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pytest

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.cache import mapped_origin, plan_spans
from tavernkit.examples import example_path
from tavernkit.lint._books import lint_world_book
from tavernkit.lint._files import lint_bundle
from tavernkit.lint._finding import Finding
from tavernkit.lint._presets import lint_preset
from tavernkit.report import overview, render_html


def preset_with(identifier: str, content: str) -> JsonObject:
    data = st.Preset.load(example_path("preset.json")).to_json()
    prompts = data["prompts"]
    for prompt in prompts if is_list(prompts) else []:
        if is_object(prompt) and prompt["identifier"] == identifier:
            prompt["content"] = content
    return data


def plan_with(identifier: str, content: str) -> st.ChatPlan:
    builder = st.Builder(
        character=tk.load(example_path("aria.json")).character,
        preset=st.Preset.from_json(preset_with(identifier, content)),
        history=st.ChatFile.load(example_path("chat.jsonl")),
        warn=None,
    )
    return builder.build()


def test_an_explanation_names_the_macro_and_the_tokens_it_costs() -> None:
    plan = plan_with("main", "It is {{time}}.")
    tokens = sum(int(str(block.metadata["tokens"])) for block in plan.enabled_blocks)
    (hint,) = plan.explain().hints
    assert hint.startswith(
        f"{{{{time}}}} in preset prompt Main Prompt makes every turn a miss: {tokens:,} tokens per turn."
    )
    assert "Hints:\n- {{time}} in preset prompt Main Prompt" in str(plan.explain())
    view = overview(plan)
    assert view.to_dict()["hints"] == [hint]
    assert "makes every turn a miss" in render_html(view)
    assert not plan_with("jailbreak", "It is {{time}}.").explain().hints  # after the chat
    assert not plan_with("main", "Hello, {{user}}.").explain().hints
    assert not pickle.loads(pickle.dumps(plan)).explain().hints  # whose files are not at hand


def test_a_source_map_finds_macros_that_come_out_of_other_texts() -> None:
    card = tk.load(example_path("aria.json")).character.replace(description="Mood: {{random::calm::cold}}.")
    preset = st.Preset.from_json(preset_with("main", "{{description}}"))
    plan = st.Builder(character=card, preset=preset, warn=None).build(message="Hi")
    assert not plan_spans(plan)[0].origin.macros
    assert dict(plan_spans(plan, origin_of=mapped_origin)[0].origin.macros) == {"random": "random"}
    lost = pickle.loads(pickle.dumps(plan))
    assert not plan_spans(lost, origin_of=mapped_origin)[0].origin.macros


def codes(findings: Iterable[Finding]) -> list[tuple[str, int | None]]:
    return [(each.where, each.line) for each in findings if each.code == "BREAKS_CACHE"]


@pytest.mark.parametrize("macro", ["{{time}}", "{{random::a::b}}", "{{roll 1d6}}", "{{lastMessage}}"])
def test_lint_finds_macros_before_the_chat(macro: str) -> None:
    assert codes(lint_preset(preset_with("main", f"Write.\n{macro}"))) == [("/prompts/main", 2)]
    assert codes(lint_preset(preset_with("jailbreak", macro))) == []
    bundle = tk.load(example_path("aria.json"))
    changed = bundle.replace(character=bundle.character.replace(description=macro, first_mes=macro))
    assert codes(lint_bundle(changed)) == [("/data/description", 1)]


def test_lint_says_how_much_a_macro_costs() -> None:
    def message(text: str) -> str:
        (found,) = [each for each in lint_preset(preset_with("main", text)) if each.code == "BREAKS_CACHE"]
        return found.message

    assert "cannot reuse 50" in message("{{time}}" + " go" * 500)
    assert "cannot reuse 50" not in message("{{time}} Go.")


def test_lint_finds_them_in_constant_lore() -> None:
    entries = {
        str(uid): {"uid": uid, "key": ["a"], "constant": constant, "position": position, "content": "It is {{time}}."}
        for uid, (constant, position) in enumerate([(True, 0), (True, 4), (False, 0)])
    }
    book = st.WorldBook.from_json({"entries": entries}, name="World")
    assert codes(lint_world_book(book)) == [("/entries/0/content", 1)]


def test_the_shipped_files_break_no_cache_by_macros() -> None:
    assert codes(lint_preset(st.Preset.load(example_path("preset.json")).to_json())) == []
    assert codes(lint_bundle(tk.load(example_path("aria.json")))) == []
