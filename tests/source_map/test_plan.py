"""What a plan says of its sources."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject
from tavernkit.cards import Character, User
from tavernkit.errors import ConfigError
from tavernkit.prompt import HookRegistry, Pipeline
from tavernkit.prompt._source_map import SourceMap, shared
from tavernkit.prompt._source_spans import TextSource
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._source_texts import NEWEST_LINES, SPARE_LINES
from tavernkit.stores import InMemoryVariablesStore
from tests.quickness import at_most
from tests.source_map.recorded import problems

CARD = Character.from_card(
    {
        "spec": "chara_card_v3",
        "spec_version": "3.0",
        "data": {
            "name": "Aria",
            "description": "{{char}} keeps the lamp. She is tall.",
            "first_mes": "Hello, {{user}}.",
            "extensions": {"depth_prompt": {"prompt": "Be brief.", "depth": 1, "role": "system"}},
            "character_book": {
                "entries": [{"keys": ["lamp"], "content": "The lamp is old.", "enabled": True, "insertion_order": 1}]
            },
        },
    }
)
USUAL = {"key": ["storm"], "position": 0, "order": 100, "disable": False}
BOOK = st.WorldBook.from_json(
    {
        "entries": {
            "7": {**USUAL, "uid": 7, "content": "@@activate\nStorms last for days.", "comment": "Storms"},
            "8": {**USUAL, "uid": 8, "content": "Rain is {{char}}'s friend.", "comment": "Rain"},
        }
    },
    name="weather",
)


def build(**inputs: Any) -> st.ChatPlan:
    given: dict[str, Any] = {
        "character": CARD,
        "user": User(name="Ann"),
        "books": [BOOK],
        "message": "What of the storm and the lamp?",
        "seed": 1,
        **inputs,
    }
    return st.build(**given)


def test_words_lead_to_the_file_the_field_and_the_characters() -> None:
    (place,) = build().where("keeps the lamp")
    (span,) = place.spans
    assert span.kind == "verbatim"
    assert span.source is not None
    assert (span.source.kind, span.source.name, span.source.pointer) == ("card", "Aria", "/data/description")
    at = span.offset + place.start - span.start
    assert span.source.text[at : at + len("keeps the lamp")] == "keeps the lamp"


def test_a_macro_says_where_it_is_written_and_where_its_text_stands() -> None:
    plan = build()
    (place,) = plan.where("Aria keeps")
    span = plan.at(place.message, place.start)
    assert (span.kind, span.name) == ("expanded", "char")
    (inner,) = span.inner
    assert inner.source is not None
    assert inner.source.pointer == "/data/name"
    (written,) = span.written
    assert written.source is not None
    assert (written.source.pointer, written.offset, len(written)) == ("/data/description", 0, len("{{char}}"))


def test_lore_entries_of_one_block_are_told_apart_and_share_its_tokens() -> None:
    plan = build()
    found = plan.source_map()
    block = next(each for each in found.blocks if "Storms last" in each.text)
    costs = [cost for cost in found.costs if cost.block == block.id]
    assert {cost.source.title for cost in costs if cost.source is not None} >= {"Storms", "Rain"}
    assert sum(cost.tokens for cost in costs) == block.tokens
    (storm,) = plan.uses("Storms")
    assert storm.source.id == "lore:weather/entries/7/content"
    assert 0 < storm.tokens < block.tokens
    assert storm.missing == ((0, len("@@activate\n")),)


def test_an_entry_of_the_cards_own_book_stands_in_the_card() -> None:
    (place,) = build().where("The lamp is old.")
    (source,) = place.spans[0].sources
    assert source.pointer == "/data/character_book/entries/0/content"


def test_what_a_regex_script_wrote_says_what_stood_there() -> None:
    script = {
        "id": "1",
        "scriptName": "shout",
        "findRegex": "/(of) the (storm)/g",
        "replaceString": "$1 THE $2!",
        "placement": [1],
        "promptOnly": True,
    }
    scripts = st.RegexScripts.from_settings({"regex": [script]})
    plan = build(regex_scripts=scripts)
    (place,) = plan.where("of THE storm!")
    (span,) = place.spans
    assert (span.kind, span.name) == ("replaced", "shout")
    kept = [leaf for leaf in span.leaves() if leaf.source is not None]
    assert [place.text[leaf.start - place.start : leaf.end - place.start] for leaf in kept] == ["of", "storm"]
    assert all(leaf.source is not None and leaf.source.kind == "message" for leaf in kept)
    (written,) = span.written
    assert (written.offset, len(written)) == (5, len("of the storm"))


@pytest.mark.parametrize("tag", ["{{description}}", "{{{description}}}", "{{ description }}", "{{&description}}"])
def test_an_expression_of_a_story_string_says_where_it_is_written(tag: str) -> None:
    story = (
        "{{#if anchorBefore}}{{anchorBefore}}{{/if}}{{#if char}}{{char}} is here: " + tag + " {{anchorAfter}}{{/if}}"
    )
    template = st.ContextTemplate.from_json({"story_string": story})
    plan = build(dialect="text", context_template=template)
    (place,) = plan.where("keeps the lamp")
    (written,) = place.spans[0].written
    assert written.source is not None
    assert written.source.text[written.offset :][: len(written)] == tag


def test_text_completion_goes_through_the_story_string_and_instruct_mode() -> None:
    plan = build(dialect="text", instruct=st.InstructTemplate(name="Mine", input_sequence="<|{{name}}|>"))
    (place,) = plan.where("keeps the lamp")
    outer = place.spans[0]
    assert (outer.kind, outer.name) == ("expanded", "description")
    assert outer.written[0].source is not None
    assert outer.written[0].source.pointer.endswith("/story_string")
    assert any(source.pointer == "/data/description" for source in outer.sources)
    assert any(source.kind == "instruct template" for source in plan.source_map().sources)


def test_a_group_traces_every_member() -> None:
    bel = Character(name="Bel", description="Bel mends nets.")
    group = st.Group(members=("a.png", "b.png"), generation_mode="append")
    plan = build(character=None, group=group, members={"a.png": CARD, "b.png": bel}, speaker="a.png")
    (net,) = plan.where("mends nets")
    assert [source.name for source in net.spans[0].sources] == ["Bel"]


def test_risu_ai_goes_through_cbs_scripts_lore_and_the_template() -> None:
    character = risu_ai.RisuCharacter(
        name="Aria",
        description="{{char}} keeps the lamp.",
        first_message="Hello.",
        lore=({"key": "storm", "content": "@@depth 0\nStorms last.", "comment": "Storms", "mode": "normal"},),
        raw={"customscript": ({"type": "editprocess", "in": "(sto)rm", "out": "$1rms", "comment": "many"},)},
    )
    plan = risu_ai.build(character=character, user=User(name="Ann"), message="What of the storm?", seed=1)
    found = plan.source_map()
    assert found.exact
    (kept,) = found.where("keeps the lamp")
    assert kept.spans[0].source is not None
    assert kept.spans[0].source.pointer == "/desc"
    (name,) = found.where("Aria keeps")
    assert (name.spans[0].kind, name.spans[0].name) == ("expanded", "char")
    (lore,) = found.where("Storms last")
    assert lore.spans[0].source is not None
    assert (lore.spans[0].source.pointer, lore.spans[0].offset) == ("/globalLore/0/content", len("@@depth 0\n"))
    (script,) = found.where("storms?")
    assert [(span.kind, span.name) for span in script.spans] == [("replaced", "many"), ("verbatim", "")]


def test_sends_with_memory_have_a_map_and_models_are_not_asked_again() -> None:
    asked: list[object] = []

    def summarize(messages: Sequence[JsonObject]) -> str:
        asked.append(messages)
        return "They met at the lamp."

    character = risu_ai.RisuCharacter(
        name="Aria", description="Aria keeps the lamp.", first_message="Hello.", raw={"supaMemory": True}
    )
    said = [{"role": "user" if n % 2 else "char", "data": f"Line {n} " + "of the lamp " * 30} for n in range(12)]
    sent = risu_ai.Builder(
        character=character,
        user=User(name="Ann"),
        history={"message": said, "fmIndex": -1},
        settings=risu_ai.Settings.from_json({"supaModelType": "subModel", "maxContext": 700, "maxResponse": 100}),
        memory=risu_ai.MemoryModels(summarize=summarize),
        seed=1,
    ).send(lambda _: "Aye.", message="What of the storm?")
    before = len(asked)
    assert before
    found = sent.plans[0].source_map()
    assert found.exact
    assert list(problems(found)) == []
    assert len(asked) == before
    place, *_ = found.where("They met at the lamp.")
    assert (place.spans[0].kind, place.spans[0].name) == ("added", "SupaMemory")
    assert found.where("What of the storm?")[0].spans[0].source is not None


def test_models_of_memory_are_asked_once() -> None:
    asked: list[object] = []

    def summarize(messages: Sequence[JsonObject]) -> str:
        asked.append(messages)
        return "short"

    models = risu_ai.MemoryModels(summarize=summarize).remembering()
    assert models.summarize is not None
    question: list[JsonObject] = [{"role": "user", "content": "long"}]
    assert [models.summarize(question), models.summarize([*question])] == ["short", "short"]
    assert len(asked) == 1


def test_a_plan_that_was_pickled_keeps_a_map_that_was_made() -> None:
    plan = build()
    with pytest.raises(ConfigError, match="before pickling"):
        pickle.loads(pickle.dumps(plan)).source_map()
    made = plan.source_map()
    copied = pickle.loads(pickle.dumps(plan))
    assert copied.source_map().to_dict() == made.to_dict()
    assert copied.where("keeps the lamp")


def test_a_plan_is_as_it_was_when_its_map_is_made() -> None:
    plan = build()
    before = plan.to_dict()
    plan.source_map()
    again = build()
    assert plan.to_dict() == before
    assert all(type(block.content) is str for block in again.blocks)
    assert again.fingerprint() == plan.fingerprint()


def test_random_numbers_of_the_application_are_used_again() -> None:
    numbers = iter([0.1])
    plan = build(message="{{random::red::blue}} storm over the sea", random=lambda: next(numbers), seed=None)
    found = plan.source_map()
    assert found.exact
    (place,) = found.where("red")
    assert (place.spans[0].kind, place.spans[0].name) == ("expanded", "random")


def test_variables_may_go_on_before_the_map_is_made() -> None:
    variables = InMemoryVariablesStore()
    variables.set("colour", "red")
    plan = build(message="{{getvar::colour}} storm over the {{getvar::sea}}sea", variables=variables)
    variables.set("colour", "blue")
    variables.set("sea", "black ")
    found = plan.source_map()
    assert found.exact
    (place,) = found.where("red")
    assert (place.spans[0].kind, place.spans[0].name) == ("expanded", "getvar")
    assert found.where(" storm over the sea")


def test_a_prompt_that_cannot_be_built_again_is_compared() -> None:
    colours = iter(["red", "blue"])
    hooks = HookRegistry()
    hooks.before_build(
        lambda state: state.change_inputs(message=state.context.message.replace("colour", next(colours)))
    )
    found = build(message="a colour storm over the sea", hooks=hooks).source_map()
    assert not found.exact
    (place,) = found.where("red storm over")
    assert {span.kind for span in place.spans} == {"added", "aligned"}


def test_the_chat_may_go_on_before_the_map_is_made() -> None:
    chat: list[Any] = [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "Aria."}]
    history = ChatLog(chat, user_name="Ann", character_name="Aria")
    plan = build(history=history)
    history.append({"role": "user", "content": "What of the storm and the lamp?"})
    assert plan.source_map().exact


CHAT = [{"role": "user", "content": f"This is what was said in line {index}."} for index in range(400)]


def test_lines_of_a_chat_that_did_not_fit_are_known_with_the_reason() -> None:
    plan = build(history=CHAT, context_length=2000)
    (old,) = plan.uses("/3/mes")
    assert (old.source.text, old.places, old.tokens) == ("This is what was said in line 3.", (), 0)
    assert old.reason == "does not fit the token budget"
    for line in (398, 380):
        (new,) = plan.uses(f"/{line}/mes")
        assert (len(new.places), new.missing, new.reason) == (1, (), "")
        assert new.tokens > 0


def test_of_a_long_chat_only_a_part_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    plan = build(history=CHAT, context_length=100000)
    run = Pipeline.run

    def counting(self: Pipeline[Any], state: Any) -> None:
        built.append(len(state.context.log.lines))
        run(self, state)

    monkeypatch.setattr(Pipeline, "run", counting)
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []
    assert built == [NEWEST_LINES + SPARE_LINES + 1]
    for line in (1, 200, 399):
        (place,) = found.where(f"said in line {line}.")
        assert [source.pointer for source in place.spans[0].sources] == [f"/{line}/mes"]


@pytest.mark.parametrize(
    "prompt", ["Message {{lastMessageId}}.", "{{firstIncludedMessageId}}", "Of {{lastUserMessage}}"]
)
def test_prompts_that_count_the_lines_of_a_long_chat_are_exact(prompt: str) -> None:
    plan = build(history=CHAT, context_length=100000, character=CARD.replace(system_prompt=prompt))
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []


def test_the_label_of_lore_names_the_entry_and_its_book() -> None:
    (place,) = build().where("Storms last for days.")
    assert place.spans[0].sources[0].label == "lore Storms (weather) /entries/7/content"


def test_lines_with_the_same_words_are_told_apart() -> None:
    chat = list(CHAT)
    for line in (0, 20, 200, 300):
        chat[line] = {"role": "user", "content": "{{char}} nods."}
    found = build(history=chat, context_length=100000).source_map()
    assert [place.spans[1].sources[0].pointer for place in found.where("Aria nods.")] == [
        f"/{line}/mes" for line in (0, 20, 200, 300)
    ]


def test_a_second_map_knows_what_was_given_as_well() -> None:
    builder = st.Builder(character=CARD, user=User(name="Ann"), books=[BOOK], seed=1)
    first, second = (builder.build(message="Hello.").source_map().given for _ in range(2))
    assert set(first) == set(second)
    assert any(source.kind == "preset" for source in second) or any(source.kind == "settings" for source in second)


def test_messages_of_a_long_risu_ai_chat_lead_to_their_places() -> None:
    character = risu_ai.RisuCharacter(name="Aria", description="Aria keeps the lamp.", first_message="Hello.")
    said = [{"role": "user", "data": f"This is what was said in line {index}."} for index in range(60)]
    said[5]["data"] = "{{char}} said this."
    plan = risu_ai.build(
        character=character,
        user=User(name="Ann"),
        history={"message": said, "fmIndex": -1, "note": "Remember: {{previous_user_chat}}"},
        message="And now?",
        seed=1,
    )
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []
    for line in (0, 30, 59):
        (place,) = found.where(f"said in line {line}.")[:1]
        assert [source.pointer for source in place.spans[0].sources] == [f"/message/{line}/data"]
        assert found.uses(f"/message/{line}/data")[0].tokens > 0
    (changed,) = found.where("Aria said this.")
    assert [span.kind for span in changed.spans] == ["expanded", "verbatim"]


def test_messages_of_risu_ai_that_did_not_arrive_are_known_with_the_reason() -> None:
    character = risu_ai.RisuCharacter(name="Aria", description="Aria keeps the lamp.", first_message="Hello.")
    said: list[dict[str, Any]] = [
        {"role": "user", "data": f"This is what was said in line {index}."} for index in range(60)
    ]
    said[58]["disabled"] = True
    said[57]["data"] = "{{#if 0}}Nothing.{{/if}}"
    inputs: dict[str, Any] = {
        "character": character,
        "user": User(name="Ann"),
        "history": {"message": said, "fmIndex": -1},
        "message": "And now?",
        "preset": risu_ai.Preset(max_context=700, max_response=100),
        "seed": 1,
    }
    plan = risu_ai.build(**inputs)
    (old,) = plan.uses("/message/3/data")
    assert (old.source.text, old.places, old.tokens) == ("This is what was said in line 3.", (), 0)
    assert old.reason == "the context is too small: the oldest chat items go first"
    assert plan.uses("/message/58/data")[0].reason == "turned off in the chat"
    assert plan.uses("/message/57/data")[0].reason == "nothing is left of it after CBS and scripts"
    (new,) = plan.uses("/message/59/data")
    assert (len(new.places), new.missing, new.reason) == (1, (), "")
    (trimmed,) = risu_ai.build(**inputs, strategy="priority").uses("/message/3/data")
    assert (trimmed.places, trimmed.reason) == ((), "does not fit the token budget")


def test_lines_that_turn_up_elsewhere_are_traced_as_well() -> None:
    prompt = "As was said before: {{summary}}"
    card = CARD.replace(system_prompt=prompt)
    summary = st.ExtensionPrompt(key="x", value="{{lastMessage}}")
    plan = build(character=card, history=CHAT, context_length=2000, message="", extension_prompts=[summary])
    assert {place.spans[0].sources[0].pointer for place in plan.where("said in line 399.")} == {"/399/mes"}


def test_lore_that_no_key_called_says_so() -> None:
    plan = build(message="Nothing.")
    (rain,) = plan.uses("Rain")
    assert rain.source.id == "lore:weather/entries/8/content"
    assert (rain.places, rain.tokens, rain.missing) == ((), 0, ((0, len(rain.source.text)),))
    assert "storm" in rain.reason
    (lamp,) = plan.uses("/data/character_book/entries/0/content")
    assert lamp.reason
    copied = pickle.loads(pickle.dumps(plan))
    assert copied.uses("Rain") == [rain]


def test_lore_of_risu_ai_that_no_key_called_says_so() -> None:
    lore = ({"key": "storm", "content": "Storms last.", "comment": "Storms", "mode": "normal"},)
    character = risu_ai.RisuCharacter(name="Aria", first_message="Hello.", lore=lore)
    (use,) = risu_ai.build(character=character, user=User(name="Ann"), message="Hm.", seed=1).uses("Storms")
    assert (use.places, use.tokens) == ((), 0)
    assert use.reason


def test_the_map_is_json() -> None:
    found = build().source_map()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["exact"] is True
    named = {span["source"] for text in plain["messages"] for span in text["spans"] if "source" in span}
    assert named <= set(plain["sources"])


def test_what_did_not_arrive_at_all_is_known() -> None:
    (use,) = build(character=CARD.replace(creator_notes="For people.")).uses("/data/creator_notes")
    assert (use.places, use.tokens, use.missing) == ((), 0, ((0, len("For people.")),))


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "google", "cohere", "mistral", "text"])
def test_payloads_of_providers_are_mapped_too(dialect: str) -> None:
    plan = build()
    found = plan.source_map(dialect)
    assert found.exact
    assert list(problems(found)) == []
    (place,) = found.where("keeps the lamp")
    assert [source.pointer for source in place.spans[0].sources] == ["/data/description"]
    assert found.messages[place.message].id.startswith("/")


LINES = [
    {"role": "user", "content": "Who keeps it?"},
    {"role": "assistant", "content": "A question of lamps."},
    {"role": "user", "content": "I ask about the lamp."},
]


@pytest.mark.parametrize(
    "provider",
    ["openai", "claude", "makersuite", "mistralai", "cohere", "ai21", "openrouter", "deepseek", "perplexity"],
)
def test_what_silly_tavern_sends_is_mapped_too(provider: str) -> None:
    plan = build(preset=st.Preset.default().replace(chat_completion_source=provider), history=LINES)
    found = plan.source_map(reference=True)
    assert found.exact
    assert list(problems(found)) == []
    assert _from_files(found) == _from_files(plan.source_map())
    body = plan.request(reference=True).wire
    assert body is not None
    for text in found.messages:
        assert _pointed_at(body.body, text.id) == text.text


@pytest.mark.parametrize(
    "model", ["gpt4o", "claude-3-5-sonnet-20241022", "gemini-1.5-pro", "cohere-command-r", "mistral-large", "ooba"]
)
def test_what_risu_ai_sends_is_mapped_too(model: str) -> None:
    character = risu_ai.RisuCharacter(name="Aria", description="{{char}} keeps the lamp.", first_message="Hello.")
    said = [{"role": "user", "data": "Who keeps it?"}, {"role": "user", "data": "Who lit it?"}]
    plan = risu_ai.build(
        character=character,
        user=User(name="Ann"),
        history={"message": said, "fmIndex": -1},
        message="What of the storm?",
        preset=risu_ai.Preset(ai_model=model),
        seed=1,
    )
    found = plan.source_map(reference=True)
    assert found.exact
    assert list(problems(found)) == []
    assert _from_files(found) == _from_files(plan.source_map())


def test_the_text_that_silly_tavern_sends_is_mapped_too() -> None:
    plan = build(dialect="text", instruct=st.InstructTemplate(name="Mine", input_sequence="<|{{name}}|>"))
    found = plan.source_map("koboldcpp", reference=True)
    assert [text.id for text in found.messages] == ["/prompt"]
    assert _from_files(found) == _from_files(plan.source_map())


def _from_files(found: SourceMap) -> int:
    counts = found.shares()
    return counts["verbatim"] + counts["expanded"]


def _pointed_at(value: Any, pointer: str) -> object:
    for key in pointer.split("/")[1:]:
        value = value[int(key)] if isinstance(value, Sequence) else value[key]
    return value


MACROS = st_.sampled_from(
    [
        "{{char}}",
        "{{user}} ",
        "<USER>",
        "{{description}}",
        "{{random::a,b}}",
        "{{// no }}",
        "{{trim}}",
        "\n",
        "{{x",
        "é🕯",
    ]
)
TEXTS = st_.lists(MACROS | st_.text(alphabet="ab {}\n", max_size=6), max_size=6).map("".join)


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, TEXTS, TEXTS, st_.booleans(), st_.sampled_from(["openai", "text"]))
def test_maps_of_generated_builds_are_exact(
    description: str, lore: str, prompt: str, said: str, modern: bool, dialect: str
) -> None:
    book = st.WorldBook.from_json({"entries": {"1": {**USUAL, "constant": True, "uid": 1, "content": lore}}}, name="b")
    power_user = {"experimental_macro_engine": modern, "collapse_newlines": modern}
    script = {"findRegex": "/a+/g", "replaceString": "<$0>", "placement": [1, 2, 5], "promptOnly": True, "id": "1"}
    plan = build(
        character=CARD.replace(description=description, system_prompt=prompt),
        books=[book],
        history=[{"role": "user", "content": said}, {"role": "assistant", "content": prompt}],
        settings=st.Settings.from_json({"power_user": power_user}),
        regex_scripts=st.RegexScripts.from_settings({"regex": [script]}),
        dialect=dialect,
        warn=None,
    )
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []


def test_sources_are_values() -> None:
    source = TextSource("card", "Aria", "/data/description", "text")
    assert source == TextSource("card", "Aria", "/data/description", "another")
    assert source.label == "card Aria /data/description"


def test_at_refuses_what_is_not_there() -> None:
    with pytest.raises(IndexError, match="none at 9999"):
        build().at(0, 9999)


@pytest.mark.parametrize(
    ("total", "weights", "shares"), [(10, [1, 1, 1], [4, 3, 3]), (5, [0, 0], [5, 0]), (7, [7], [7])]
)
def test_shares_add_up(total: int, weights: list[int], shares: list[int]) -> None:
    assert shared(total, weights) == shares


def test_places_are_found_in_linear_time() -> None:
    entry = {"uid": 0, "key": [], "constant": True, "content": "{{char}} a " * 5000, "position": 0}
    entry["ignoreBudget"] = True
    book = st.WorldBook.from_json({"entries": {"0": entry}}, name="w")
    plan = st.build(character=Character(name="Aria"), books=[book], message="hi", context_length=10**9, warn=None)
    with at_most(5):
        found = plan.where(" a")
    assert len(found) > 5000
    assert all(place.spans and place.spans[0].start <= place.start < place.spans[0].end for place in found)
