"""Which source pays for the characters of a prompt: every test asks what an author would ask."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.cards import Character, User
from tavernkit.prompt import Plan
from tavernkit.prompt._source_map import SourceMap
from tavernkit.report._overview import overview
from tests.source_map.recorded import problems

LONG_NAME = "Aria of the Seventeen Lanterns"
DESCRIPTION = "{{char}} keeps the lamp and counts every ship."


def entry(uid: int, content: str, title: str, **more: object) -> dict[str, object]:
    return {"uid": uid, "key": ["storm"], "position": 0, "disable": False, "content": content, "comment": title, **more}


def book(*entries: dict[str, object]) -> st.WorldBook:
    return st.WorldBook.from_json({"entries": {str(each["uid"]): each for each in entries}}, name="weather")


def preset(main: str, *others: dict[str, object]) -> st.Preset:
    prompts = [{"identifier": "main", "name": "Main", "role": "system", "content": main}, *others]
    order = [{"identifier": each["identifier"], "enabled": True} for each in (*prompts, {"identifier": "chatHistory"})]
    return st.Preset.from_json(
        {
            "prompts": [*prompts, {"identifier": "chatHistory", "marker": True, "name": "Chat"}],
            "prompt_order": [{"character_id": 100001, "order": order}],
        }
    )


def build(dialect: str = "openai", **inputs: Any) -> Plan:
    character = Character(name=LONG_NAME, description=DESCRIPTION, first_mes="Hello.", **inputs.pop("card", {}))
    given = {"character": character, "user": User(name="Ann"), "message": "The storm?", "seed": 1, **inputs}
    return st.build(**given, dialect=dialect)


def owned(plan: Plan, source: str) -> tuple[list[str], int]:
    """The words that a source has in a prompt, and its tokens."""
    (use,) = [use for use in plan.uses(source) if use.places]
    return [place.text for place in use.places], use.tokens


def sums(found: SourceMap) -> None:
    assert list(problems(found)) == []
    assert sum(cost.tokens for cost in found.costs) == sum(block.tokens for block in found.blocks)


def test_an_entry_pays_for_what_its_macros_gave() -> None:
    entries = book(
        entry(1, "{{char}} fears {{random::squalls::squalls}}.", "Fear"),
        entry(2, "Rain falls.", "Rain"),
        entry(3, "{{description}}", "Copy"),
    )
    plan = build(books=[entries])
    count = plan.count_tokens
    assert count is not None
    words, tokens = owned(plan, "Fear")
    assert words == [f"{LONG_NAME} fears squalls."]
    assert abs(tokens - count(words[0])) <= 2  # the tokens of a shared block are divided in proportion
    words, tokens = owned(plan, "Copy")
    assert words == [f"{LONG_NAME} keeps the lamp and counts every ship."]
    assert abs(tokens - count(words[0])) <= 2
    sums(plan.source_map())


def test_where_and_at_lead_on_to_the_name() -> None:
    plan = build(books=[book(entry(1, "{{char}} fears squalls.", "Fear"))])
    place = next(each for each in plan.where(LONG_NAME) if "fears" in plan.messages[each.message].content)
    assert [source.pointer for source in place.spans[0].sources] == ["/data/name"]
    (name,) = plan.uses(f"card:{LONG_NAME}/data/name")
    assert name.places
    assert name.tokens == 0  # it is only there because other texts ask for it


def test_a_field_pays_for_the_names_in_it() -> None:
    words, _ = owned(build(), "/description")
    assert words == [f"{LONG_NAME} keeps the lamp and counts every ship."]


def test_a_macro_that_gave_something_has_arrived() -> None:
    entries = book(entry(1, "{{// not sent}}{{char}} fears squalls.", "Fear"))
    (use,) = build(books=[entries]).uses("Fear")
    assert [use.source.text[start:end] for start, end in use.missing] == ["{{// not sent}}"]


def test_of_a_block_macro_only_the_branch_that_was_taken_has_arrived() -> None:
    lore = {
        "key": "storm",
        "content": "{{#if 1}}Yes.{{/if}}{{#if 0}}No.{{/if}} Done.",
        "comment": "If",
        "mode": "normal",
    }
    character = risu_ai.RisuCharacter(name="Aria", first_message="Hello.", lore=(lore,))
    (use,) = risu_ai.build(character=character, user=User(name="Ann"), message="A storm.", seed=1).uses("If")
    assert [place.text for place in use.places] == ["Yes. Done."]
    missing = "".join(use.source.text[start:end] for start, end in use.missing)
    assert "No." in missing
    assert "Yes." not in missing


def test_a_prompt_pays_for_its_words_and_names_and_places_the_rest() -> None:
    prompt = "You are {{char}}, {{user}}'s friend. {{description}} They said: {{lastMessage}}"
    plan = build(preset=preset(prompt))
    words, tokens = owned(plan, "prompts/0")
    assert words[0].startswith(f"You are {LONG_NAME}, Ann's friend. ")
    assert words[-1].endswith("They said: The storm?")
    assert tokens > 0
    words, tokens = owned(plan, "/description")
    assert words == [f"{LONG_NAME} keeps the lamp and counts every ship."] * 2  # in the prompt, and where it always is
    assert tokens > 0
    sums(plan.source_map())


def test_a_prompt_that_sets_a_variable_pays_where_another_prompt_places_it() -> None:
    style = {"identifier": "style", "role": "system", "system_prompt": False}
    style["content"] = "{{setvar::style::Write like a poet.}}"
    rules = {**style, "identifier": "rules", "content": "Rules: {{getvar::style}}"}
    plan = build(preset=preset("Main.", style, rules))
    assert owned(plan, "prompts/1")[0] == ["Write like a poet."]
    assert owned(plan, "prompts/2")[0] == ["Rules: "]
    sums(plan.source_map())


def test_original_leads_on_to_the_prompt_of_the_preset() -> None:
    plan = build(preset=preset("Be kind to {{user}}."), card={"system_prompt": "Sing. {{original}} Dance."})
    assert owned(plan, "prompts/0")[0] == ["Be kind to Ann."]
    assert owned(plan, "/system_prompt")[0] == ["Sing. ", " Dance."]


def test_a_format_places_lore_and_fields() -> None:
    template = st.Preset.from_json({"wi_format": "<lore>{0}</lore>", "scenario_format": "Where: {{scenario}}."})
    plan = build(preset=template, books=[book(entry(1, "{{char}} hides.", "Hide"))], card={"scenario": "At sea."})
    assert owned(plan, "Hide")[0] == [f"{LONG_NAME} hides."]
    assert owned(plan, "/data/scenario")[0][-1] == "At sea."
    sums(plan.source_map())


def test_a_story_string_places_fields_and_lore() -> None:
    story = "{{#if wiBefore}}Lore: {{wiBefore}}\n{{/if}}{{#if description}}{{char}}: {{description}}\n{{/if}}"
    template = st.ContextTemplate.from_json({"story_string": story})
    plan = build("text", context_template=template, books=[book(entry(1, "{{user}} hides.", "Hide"))])
    assert owned(plan, "Hide")[0] == ["Ann hides."]
    assert owned(plan, "/description")[0] == [f"{LONG_NAME} keeps the lamp and counts every ship."]
    words, tokens = owned(plan, "/story_string")
    assert any(LONG_NAME in each for each in words)
    assert tokens > 0
    sums(plan.source_map())


def test_a_card_of_risu_ais_template_places_what_it_is_for() -> None:
    cards = [
        {"type": "plain", "type2": "main", "role": "system", "text": "You are {{char}}."},
        {"type": "description", "innerFormat": "<char>{{slot}}</char>"},
        {"type": "lorebook"},
        {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
    ]
    lore = {"key": "storm", "content": "{{char}} fears storms.", "comment": "Fear", "mode": "normal"}
    character = risu_ai.RisuCharacter(name=LONG_NAME, description=DESCRIPTION, first_message="Hello.", lore=(lore,))
    plan = risu_ai.build(
        character=character,
        preset=risu_ai.Preset.from_json({"promptTemplate": cards}),
        user=User(name="Ann"),
        message="A storm.",
        seed=1,
    )
    assert owned(plan, "promptTemplate/0")[0] == [f"You are {LONG_NAME}."]
    assert owned(plan, "/desc")[0] == [f"{LONG_NAME} keeps the lamp and counts every ship."]
    assert owned(plan, "Fear")[0] == [f"{LONG_NAME} fears storms."]
    sums(plan.source_map())


def test_what_a_script_wrote_counts_for_the_text_it_replaced() -> None:
    script = {
        "id": "1",
        "scriptName": "shout",
        "findRegex": "/storm/g",
        "replaceString": "STORM of {{char}}",
        "placement": [1],
        "promptOnly": True,
    }
    plan = build(regex_scripts=st.RegexScripts.from_settings({"regex": [script]}))
    (use,) = plan.uses("message")
    assert [place.text for place in use.places] == [f"The STORM of {LONG_NAME}?"]
    assert [use.source.text[start:end] for start, end in use.missing] == ["storm"]


@pytest.mark.parametrize("contents", [("A gale.", "A breeze blows."), ("Same.", "Same.")])
def test_the_report_tells_entries_of_one_title_apart(contents: tuple[str, str]) -> None:
    plan = build(books=[book(*[entry(uid, content, "Storm") for uid, content in enumerate(contents)])])
    view = overview(plan, sources=True)
    found = {source.text: tokens for source, tokens in plan.source_map().tokens_by_source().items()}
    assert {row.id for row in view.lore} == set(view.lore_tokens)
    assert [view.lore_tokens[row.id] for row in view.lore] == [
        pytest.approx(found[row.content], abs=1) for row in view.lore
    ]
    assert sum(view.lore_tokens.values()) == sum(use.tokens for use in plan.uses("Storm"))
