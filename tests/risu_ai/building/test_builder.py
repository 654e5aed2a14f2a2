from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import tavernkit.examples
from tavernkit import risu_ai
from tavernkit.cards import Character, User
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import ConfigError, StrictModeError
from tavernkit.prompt import HookRegistry, InjectionRegistry, Message, TraceCollector
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai import PIPELINE, Builder, Preset, RisuChat, RisuModule, Settings
from tavernkit.risu_ai import build as build_once
from tavernkit.risu_ai._chat.prompt_message import Inlay
from tavernkit.risu_ai._state import RisuState
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import CHAT, STANDARD, build, character, contents, inputs, lore, preset


def test_the_pipeline_shows_its_steps():
    assert PIPELINE.names == (
        "hooks",
        "prepare",
        "lore",
        "cbs",
        "triggers",
        "regex_scripts",
        "memory",
        "template_assembly",
        "plan_assembly",
    )


def test_without_a_template_the_order_of_the_preset_is_walked():
    assert contents(build(preset=preset(global_note="Note."))) == [
        "Main.\n\nA smith.",
        "[Start a new chat]",
        "Hello.",
        "Hi.",
        "Welcome.",
        "What now?",
        "Note.",
    ]


def test_a_template_decides_what_is_printed_and_where():
    plan = build(preset=preset(STANDARD), user=User(name="Ann", persona="A knight."))
    assert contents(plan)[0] == "Main.\n\nA smith.\n\nA knight."
    assert contents(plan)[-1] == "Note."


def test_messages_may_be_plain_ones_and_the_input_box_adds_one():
    plan = build(history=[Message(role="user", content="Hi."), {"role": "assistant", "content": "Yes?"}], message="Go.")
    assert contents(plan)[-3:] == ["Hi.", "Yes?", "Go."]
    assert [message.role for message in plan.chat.messages] == ["user", "char", "user"]


def test_messages_without_an_id_get_the_same_one_every_time():
    first, second = (build(history=["a"] and [{"role": "user", "content": "Hi."}]) for _ in range(2))
    ids = [plan.chat.messages[0].raw["chatId"] for plan in (first, second)]
    assert ids[0] == ids[1]


def test_a_card_is_imported_as_risu_ai_would():
    folder = Path(tavernkit.examples.__file__).parent
    card = Character.from_card(json.loads((folder / "aria.json").read_text("utf-8")))
    plan = build(character=card)
    assert "Description of Aria" in contents(plan)[0]
    assert any("why the lamp went dark" in text for text in contents(plan)), "the depth prompt is in"


def test_stored_messages_are_expanded_for_good_and_may_write_variables():
    variables = InMemoryVariablesStore()
    plan = build(history=[{"role": "user", "data": "{{setvar::gold::3}}I am {{user}}."}], variables=variables)
    assert plan.chat.messages[0].data == "I am Ann."
    assert not variables.has("gold"), "a build changes nothing"
    plan.variables.apply(variables)
    assert variables.get("gold") == "3"


def test_variables_of_the_chat_are_read_from_it():
    chat = {"message": CHAT, "fmIndex": -1, "scriptstate": {"$gold": "7"}}
    plan = build(history=chat, preset=preset(main_prompt="Gold: {{getvar::gold}}"))
    assert contents(plan)[0].startswith("Gold: 7")


def test_modules_bring_lore_and_scripts():
    module = RisuModule.from_json(
        {
            "id": "m",
            "name": "M",
            "lorebook": [lore("The forge is old.")],
            "regex": [{"comment": "", "in": "Welcome", "out": "Greetings", "type": "editprocess"}],
        }
    )
    plan = build(modules=[module])
    assert "Greetings." in contents(plan)
    assert any("The forge is old." in text for text in contents(plan))


def test_what_is_passed_to_build_wins_over_the_builder():
    builder = Builder(**inputs())
    assert contents(builder.build(preset=preset(main_prompt="Other.")))[0].startswith("Other.")
    assert contents(builder.build())[0].startswith("Main.")


def test_one_shot_builds_do_not_remember_script_results_of_others():
    script = {"comment": "", "in": "Hi", "out": "{{user}}", "type": "editprocess"}
    given = inputs(character=character(customscript=[script]))
    users: list[dict[str, Any]] = [{**given, "user": User(name=name)} for name in ("Ann", "Bob")]
    texts = [contents(build_once(**each)) for each in users]
    assert "Ann." in texts[0]
    assert "Bob." in texts[1]


def test_builds_are_repeatable_with_a_seed():
    given = inputs(preset=preset(main_prompt="{{random::a::b::c::d::e::f}}{{roll::20}}"), seed=7)
    assert contents(Builder().build(**given)) == contents(Builder().build(**given))


def test_a_builder_serves_threads():
    builder = Builder(**inputs())
    expected, found = contents(builder.build()), []

    def work() -> None:
        found.extend(contents(builder.build()) == expected for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 40


def test_hooks_change_inputs_and_plans():
    hooks = HookRegistry()

    @hooks.before_build
    def rename(state: Any) -> None:
        state.change_inputs(user=User(name="Zoe"))

    @hooks.after_build
    def shorten(state: Any) -> None:
        state.plan = state.plan.with_blocks(state.plan.blocks[:1])

    plan = build(hooks=hooks, preset=preset(main_prompt="For {{user}}."))
    assert contents(plan) == ["For Zoe.\n\nA smith."]


def test_injections_stand_before_behind_and_in_the_chat():
    injections = InjectionRegistry()
    injections.register("a", "Top for {{char}}.", "before")
    injections.register("b", "End.", "after")
    injections.register("c", "Deep.", "chat", depth=1)
    found = contents(build(injections=injections, preset=preset(STANDARD)))
    assert found[0] == "Top for Mira."
    assert found[-1] == "End."
    assert found.index("Deep.") == found.index("What now?") - 1


def test_a_step_can_be_put_into_the_pipeline():
    class Shout(Step[RisuState, NoConfig]):
        def before(self, state: RisuState) -> None:
            for message in state.messages:
                message.content = message.content.upper()

    builder = Builder(pipeline=PIPELINE.insert_after("template_assembly", Shout()), **inputs())
    assert "WHAT NOW?" in contents(builder.build())


def test_the_trace_names_every_step():
    trace = build(instrumenter=TraceCollector()).trace
    assert trace is not None
    assert {stage.name for stage in trace.steps} == set(PIPELINE.names)


def test_a_character_may_be_nobody():
    assert contents(build(character=None))[:2] == ["Main.", "[Start a new chat]"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"caracter": 1}, "did you mean 'character'"),
        ({"character": 5}, "must be a Character"),
        ({"history": "text"}, "must be a chat or a list of messages"),
        ({"history": {"messages": []}}, "RisuAI's JSON of a chat"),
        ({"strategy": "best"}, "strategy must be one of"),
        ({"on_overflow": "ignore"}, "on_overflow must be one of"),
        ({"generation_type": "swipe"}, "generation_type must be one of"),
        ({"preset": {}}, "preset must be a Preset"),
        ({"members": 3}, "members must be a list"),
        ({"members": [None]}, r"not list \[None\]"),
    ],
)
def test_wrong_inputs_are_refused_at_once(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Builder(**wrong)


def test_strict_mode_raises_what_normal_mode_reports():
    wrong = preset([{"type": "plain", "type2": "main", "text": "x", "role": "assistant"}])
    plan = build(preset=wrong)
    assert "role 'assistant'" in plan.warnings[0]
    with pytest.raises(Exception, match="role 'assistant'") as caught:
        build(preset=wrong, strict=True)
    assert isinstance(caught.value.__cause__, StrictModeError)


def test_an_ordinary_build_has_nothing_to_report():
    assert build(preset=preset(STANDARD), strict=True, message="Go on, {{char}}.").warnings == ()


def test_the_settings_bring_their_own_preset():
    settings = Settings.from_json({"username": "Cleo", "mainPrompt": "Hi {{user}}.", "aiModel": "gpt4o"})
    plan = build(preset=None, settings=settings, user=None)
    assert contents(plan)[0].startswith("Hi Cleo.")


def test_a_preset_chain_picks_one_of_its_presets():
    presets = tuple(Preset(name=name, main_prompt=f"From {name}.", ai_model="gpt4o") for name in ("a", "b"))
    settings = Settings(presets=presets, preset_chain="a, b")
    found = {
        contents(build(preset=None, settings=settings, random=lambda dice=dice: dice))[0][:7] for dice in (0.1, 0.9)
    }
    assert found == {"From a.", "From b."}


def test_a_chain_that_names_an_unknown_preset_is_reported():
    plan = build(preset=None, settings=Settings(preset_chain="gone"))
    assert any("'gone'" in warning for warning in plan.warnings)


def test_a_bound_persona_gives_name_and_prompt():
    settings = Settings.from_json(
        {"personaPrompt": "x", "personas": [{"id": "p", "name": "Rex", "personaPrompt": "{{user}} is a thief."}]}
    )
    chat = RisuChat.from_json({"message": CHAT, "fmIndex": -1, "bindedPersona": "p"})
    assert "Rex is a thief." in contents(build(settings=settings, history=chat))[0]


def test_fields_of_the_request_are_samplers_and_the_size_of_the_reply():
    plan = build(preset=preset(temperature=70, top_p=-1000, max_context=400), token_estimator=None)
    assert plan.llm_options["temperature"] == 0.7
    assert "top_p" not in plan.llm_options
    assert plan.llm_options["max_tokens"] == 100
    assert build(llm_options={"temperature": 0.1}).llm_options["temperature"] == 0.1


def test_every_public_name_can_be_imported():
    for name in risu_ai.__all__:
        assert getattr(risu_ai, name) is not None


def test_a_picture_is_described_to_a_model_that_cannot_see_it():
    picture = Inlay(Attachment.image(url="https://example.invalid/a.png"))
    own = Inlay(Attachment.image(url="https://example.invalid/b.png"), caption="own words")
    plan = build(
        preset=preset(ai_model="gpt4_0613"),
        message="{{inlayed::a}}{{inlayed::b}}",
        inlays={"a": picture, "b": own},
        caption=lambda seen: f"a picture at {seen.url}",
    )
    assert "[a picture at https://example.invalid/a.png][own words]" in contents(plan)
