from __future__ import annotations

import threading
from typing import Any

import pytest

from tavernkit.cards import User
from tavernkit.errors import ConfigError, LoreParseError, PipelineError, StrictModeError
from tavernkit.prompt import HookRegistry, InjectionRegistry, Message, Plan, TraceCollector
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern import (
    CHAT_PIPELINE,
    TEXT_PIPELINE,
    Builder,
    ChatFile,
    ChatMessage,
    Persona,
    PowerUser,
    Settings,
    SillyTavernState,
    WorldBook,
)
from tavernkit.silly_tavern import build as build_once
from tavernkit.silly_tavern.errors import UnconsumedMacroError
from tavernkit.stores import InMemoryVariablesStore
from tests.silly_tavern.scene import CHAT, build, card, contents, inputs, order, preset


def custom(identifier: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"identifier": identifier, "content": content, "role": "system", "system_prompt": False, **fields}


def book(name: str, content: str, **fields: Any) -> WorldBook:
    entry = {"uid": 0, "key": [], "content": content, "constant": True, "position": 0, "order": 100, **fields}
    return WorldBook.from_json({"entries": {"0": entry}}, name=name)


def test_both_pipelines_show_the_same_steps():
    assert CHAT_PIPELINE.names == TEXT_PIPELINE.names
    assert CHAT_PIPELINE.names == (
        "hooks",
        "prepare",
        "lore",
        "entries",
        "pinned_groups",
        "injection",
        "compilation",
        "macro_expansion",
        "plan_assembly",
        "trimming",
    )


def test_a_chat_is_built_in_the_order_of_the_preset():
    assert contents(build()) == [
        "Write Lyra's next reply in a fictional chat between Lyra and Mira.",
        "Lyra keeps the lamp.",
        "[Start a new Chat]",
        "You are late, Mira.",
        "I lost my boat.",
        "Sit down.",
        "Is Lyra alone?",
    ]


def test_one_builder_builds_turn_after_turn():
    builder = Builder(**inputs())
    first = builder.build(message="One?")
    second = builder.build(history=[*first.chat, ChatMessage(name="Lyra", mes="Reply.")], message="Two?")
    assert contents(second)[-3:] == ["One?", "Reply.", "Two?"]
    assert contents(builder.build(message="One?")) == contents(first)


def test_the_one_shot_form_gives_the_same_prompt():
    assert contents(build_once(**inputs())) == contents(build())


def test_a_build_is_a_pure_function_of_its_context():
    chat = [{"name": "Lyra", "mes": "{{addvar::n::1}}{{getvar::n}} {{random::a::b::c}} {{roll::1d100}}"}]
    builder = Builder(**inputs(history=chat, seed=7, random=pytest.fail))
    plans = [builder.build() for _ in range(3)]
    assert len({plan.fingerprint() for plan in plans}) == 1
    assert plans[0].fingerprint() != builder.build(seed=8, message="x").fingerprint()


def test_an_applications_variables_are_read_and_written():
    variables = InMemoryVariablesStore({"local": {"mood": "calm"}})
    plan = build(variables=variables, message="{{getvar::mood}}{{setvar::mood::wild}}")
    assert contents(plan)[-1] == "calm"
    assert variables.get("mood") == "calm", "a build changes nothing"
    plan.variables.apply(variables)
    assert variables.get("mood") == "wild"


def test_the_same_context_gives_the_same_plan():
    builder = Builder(**inputs())
    context = builder.make_context(message="{{incvar::n}} {{random::a,b,c,d,e,f,g,h}} {{roll::1d1000}} {{isotime}}")
    first, second = builder.run(context), builder.run(context)
    assert first.to_messages() == second.to_messages()
    assert contents(first)[-1].startswith("1 ")


def test_variables_of_the_chat_file_are_there_and_the_file_is_not_changed():
    chat = ChatFile.loads('{"chat_metadata": {"variables": {"mood": "calm"}}}\n{"name": "Lyra", "mes": "Hi"}')
    builder = Builder(**inputs(history=chat))
    for _ in range(2):
        assert contents(builder.build(message="{{getvar::mood}}{{setvar::mood::wild}}"))[-1] == "calm"


def test_builds_can_run_in_many_threads():
    builder = Builder(**inputs(books=[book("w", "Lore for {{user}}.")]))
    expected = contents(builder.build(message="Hi 0"))[:-1]
    found: list[list[str]] = []

    def work(number: int) -> None:
        found.append(contents(builder.build(message=f"Hi {number}"))[:-1])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_histories_may_be_neutral_messages():
    history = [Message(role="assistant", content="Hi."), {"role": "user", "content": "Yes?"}]
    assert [(each.role, each.content) for each in build(history=history).messages][-2:] == [
        ("assistant", "Hi."),
        ("user", "Yes?"),
    ]


def test_the_name_of_nobody_becomes_user():
    assert "and User." in contents(build(user=User(name="")))[0]


def test_the_users_persona_stands_where_the_settings_say():
    assert "A sailor." in contents(build(user=User(name="Mira", persona="A sailor.")))
    settings = Settings(persona=Persona(position="none"))
    assert "A sailor." not in contents(build(user=User(name="Mira", persona="A sailor."), settings=settings))


@pytest.mark.parametrize(
    ("position", "expected"),
    [("in_prompt", "P"), ("top_an", "P\nNOTE"), ("bottom_an", "NOTE\nP"), ("at_depth", "P"), ("none", None)],
)
def test_a_persona_has_five_positions(position: str, expected: str | None):
    plan = build(
        persona=Persona("P", position=position, depth=0),
        chat_metadata={"note_prompt": "NOTE", "note_depth": 1},
    )
    found = [text for text in contents(plan) if "P" in text.split("\n")]
    assert found == ([expected] if expected else [])


def test_a_persona_that_is_given_the_deprecated_position_shows_nowhere():
    assert "P" not in contents(build(persona=Persona("P", position=1)))


def test_a_persona_beside_the_note_is_gone_when_the_note_is_not_due():
    plan = build(persona=Persona("P", position="top_an"), chat_metadata={"note_prompt": "NOTE", "note_interval": 3})
    assert not any("P" in text.split("\n") for text in contents(plan))


def test_wrong_inputs_are_refused_at_once_with_what_to_pass():
    with pytest.raises(ConfigError, match="did you mean 'character'"):
        Builder(**inputs(charakter=card()))
    with pytest.raises(ConfigError, match="strategy must be one of"):
        Builder(**inputs(strategy="magic"))
    with pytest.raises(ConfigError, match="generation_type must be one of"):
        Builder(**inputs()).build(generation_type="loud")  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ConfigError, match="preset must be a Preset"):
        Builder(**inputs(preset={"n": 1}))
    with pytest.raises(ConfigError, match="persona must be a Persona"):
        Builder(**inputs(persona="A sailor."))
    with pytest.raises(ConfigError, match="history must be"):
        Builder(**inputs(history="hello"))
    with pytest.raises(ConfigError, match="'mes'"):
        Builder(**inputs(history=[{"text": "hello"}]))


@pytest.mark.parametrize("dialect", ["openai", "text"])
def test_there_is_no_prompt_without_a_character_unless_a_hook_brings_one(dialect: str):
    with pytest.raises(ConfigError, match="pass character="):
        Builder().build(message="hi", dialect=dialect)
    hooks = HookRegistry()
    hooks.before_build(lambda state: state.change_inputs(character=card()))
    assert Builder(hooks=hooks).build(message="hi", dialect=dialect).blocks


@pytest.mark.parametrize("dialect", ["openai", "text"])
def test_a_plan_has_the_greeting_that_was_asked_for(dialect: str):
    def plan(**more: object) -> Plan:
        greeter = card().replace(first_mes="Hello, {{user}}.", alternate_greetings=("Psst, {{user}}!",))
        return build(character=greeter, dialect=dialect, warn=None, **more)

    assert not plan().has_greeting
    assert (plan(greeting=0).greeting, plan(greeting=0).greeting_index) == ("Hello, Mira.", 0)
    assert (plan(greeting=1).greeting, plan(greeting=1).greeting_index) == ("Psst, Mira!", 1)
    assert not plan(greeting=2).has_greeting
    assert "greeting 2" in plan(greeting=2).warnings[0]


def test_hooks_may_change_inputs_and_the_plan():
    hooks = HookRegistry()

    @hooks.before_build
    def shout(state: Any) -> None:
        state.change_inputs(message=state.context.message.upper())

    @hooks.after_build
    def sign(state: Any) -> None:
        first = state.plan.blocks[0]
        state.plan = state.plan.with_blocks([first.replace(content="signed"), *state.plan.blocks[1:]])

    texts = contents(build(hooks=hooks, message="hello"))
    assert (texts[0], texts[-1]) == ("signed", "HELLO")


def test_injections_go_before_after_into_the_chat_or_nowhere():
    registry = InjectionRegistry()
    registry.register("b", "BEFORE", "before")
    registry.register("a", "AFTER", "in_prompt")
    registry.register("c", "CHAT", "chat", depth=1, role="user")
    registry.register("n", "NOWHERE", "none")
    texts = contents(build(injections=registry))
    assert texts[:3] == ["BEFORE", "Write Lyra's next reply in a fictional chat between Lyra and Mira.", "AFTER"]
    assert texts[-2:] == ["CHAT", "Is Lyra alone?"]
    assert "NOWHERE" not in texts


def test_an_injection_that_is_scanned_calls_lore():
    registry = InjectionRegistry()
    registry.register("n", "the kraken wakes", "none", scan=True)
    lore = book("w", "Krakens are large.", constant=False, key=["kraken"])
    assert "Krakens are large." in contents(build(injections=registry, books=[lore]))
    assert "Krakens are large." not in contents(build(books=[lore]))


def test_filters_decide_and_a_failing_filter_counts_as_active():
    registry = InjectionRegistry()
    registry.register("no", "NO", "after", filter=lambda state: False)
    registry.register("bad", "BAD", "after", filter=lambda state: 1 / 0 > 1)
    plan = build(injections=registry)
    assert "BAD" in contents(plan)
    assert "NO" not in contents(plan)
    assert "bad" in plan.warnings[0]
    assert any(omission.id == "no" for omission in plan.omissions)


def test_a_macro_of_the_application_is_expanded():
    assert contents(build(macro_vars={"Weather": "rain"}, message="{{weather}}"))[-1] == "rain"


def test_unknown_macros_stay_with_a_warning_and_are_errors_in_strict_mode():
    plan = build(message="{{nosuch}}")
    assert contents(plan)[-1] == "{{nosuch}}"
    assert "nosuch" in plan.warnings[0]
    with pytest.raises(PipelineError, match="nosuch"):
        build(message="{{nosuch}}", strict=True)


def test_warnings_are_errors_in_strict_mode():
    with pytest.raises(PipelineError, match="slash command") as caught:
        build(message="/hide", strict=True)
    assert isinstance(caught.value.__cause__, StrictModeError)


def test_lore_that_cannot_be_read_is_an_error_of_its_own_in_strict_mode():
    book = WorldBook("Lore", {"entries": {"0": {"uid": 0, "key": ["a"], "content": 7}}})
    assert "its content must be text" in build(books=[book]).warnings[0]
    with pytest.raises(PipelineError, match="its content must be text") as caught:
        build(books=[book], strict=True)
    assert isinstance(caught.value.__cause__, LoreParseError)


def test_macros_that_are_left_in_the_prompt_are_errors_in_strict_mode():
    variables = InMemoryVariablesStore({"local": {"x": "{{user}}"}})
    own = preset(prompts=[custom("mine", "{{getvar::x}}")], prompt_order=order("mine", "chatHistory"))
    assert contents(build(preset=own, variables=variables))[0] == "{{user}}"
    with pytest.raises(PipelineError, match="is left in preset prompt mine") as caught:
        build(preset=own, variables=variables, strict=True)
    assert isinstance(caught.value.__cause__, UnconsumedMacroError)
    assert caught.value.__cause__.remaining_macros == ("{{user}}",)


def test_what_is_typed_is_expanded_twice():
    variables = InMemoryVariablesStore({"local": {"x": "{{user}}"}})
    assert contents(build(message="{{getvar::x}}", variables=variables, strict=True))[-1] == "Mira"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"system_prompt": True}, "its system_prompt must be false"),
        ({"system_prompt": None}, "its system_prompt must be false"),
        ({"injection_position": 1, "injection_depth": -1}, "at depth -1"),
        ({"injection_position": 1, "injection_depth": 2, "role": "tool"}, "with the role 'tool'"),
    ],
)
def test_a_prompt_that_is_on_and_can_never_be_sent_is_an_omission(fields: dict[str, Any], reason: str):
    own = preset(prompts=[custom("mine", "MINE", name="Mine", **fields)], prompt_order=order("mine", "chatHistory"))
    plan = build(preset=own)
    assert "MINE" not in contents(plan)
    [omission] = [each for each in plan.omissions if each.id == "mine"]
    assert (omission.kind, omission.name) == ("prompt", "Mine")
    assert reason in omission.reason
    assert any(reason in problem for problem in own.problems())


def test_a_cards_original_is_no_reason_to_warn():
    plan = build(character=card(system_prompt="Card: {{original}}"), strict=True)
    assert contents(plan)[0] == "Card: Write Lyra's next reply in a fictional chat between Lyra and Mira."
    assert plan.overridden_prompts == ("main",)


def test_a_step_can_be_put_into_the_pipeline():
    class Shout(Step[SillyTavernState, NoConfig]):
        def before(self, state: SillyTavernState) -> None:
            state.macros.change(user_name="MIRA")

    builder = Builder(**inputs()).with_pipeline(CHAT_PIPELINE.insert_after("lore", Shout()))
    assert contents(builder.build())[0].endswith("and MIRA.")


def test_a_step_whose_input_is_missing_says_which_step_must_run():
    builder = Builder(**inputs()).with_pipeline(CHAT_PIPELINE.without("injection"))
    with pytest.raises(PipelineError, match="the injection step must run"):
        builder.build()


def test_the_trace_names_steps_and_counts():
    collector = TraceCollector()
    plan = build(instrumenter=collector)
    assert plan.trace is not None
    assert [step.name for step in plan.trace.steps] == list(CHAT_PIPELINE.names)
    assert plan.trace.steps[-1].stats["final_tokens"] == plan.trim_report.final_tokens  # pyright: ignore[reportOptionalMemberAccess]


def test_every_block_says_where_it_came_from():
    registry = InjectionRegistry()
    registry.register("i", "I", "chat", depth=0)
    plan = build(
        injections=registry,
        books=[book("w", "Lore.")],
        character=card(mes_example="<START>\n{{user}}: a\n{{char}}: b", system_prompt="S"),
        chat_metadata={"note_prompt": "N", "note_depth": 1},
        persona=Persona("P"),
        preset=preset(
            prompts=[custom("c", "C")],
            prompt_order=order("main", "worldInfoBefore", "c", "dialogueExamples", "chatHistory"),
        ),
    )
    kinds = [block.source["kind"] for block in plan.blocks]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert all({"stage", "kind", "id", "reason"} <= set(block.source) for block in plan.blocks)  # pyright: ignore[reportArgumentType]
    assert set(kinds) == {
        "card field",
        "lore",
        "preset prompt",
        "preset",
        "history",
        "author's note",
        "injection",
        "persona",
    }


def test_the_explanation_tells_what_is_in_and_what_is_out():
    told = str(build(books=[book("w", "Lore.", constant=False, key=["zzz"])], message="Hello?").explain())
    assert "preset prompt Main Prompt" in told
    assert "message #3 of Mira" in told
    assert "Enhance Definitions" in told
    assert "switched off in the prompt list" in told


def test_lore_is_named_with_the_key_that_called_it():
    lore = book("w", "Boats leak.", constant=False, key=["alone"], comment="Boats")
    plan = build(books=[lore])
    block = next(block for block in plan.blocks if block.content == "Boats leak.")
    assert block.source["reason"] == "Boats (key 'alone') in w"  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


def test_an_embedded_book_counts_as_the_characters():
    from tavernkit.cards import BookEntry, CharacterBook

    embedded = CharacterBook(
        entries=(BookEntry(keys=("boat",), content="Boats leak.", constant=True, position="before_char"),)
    )
    assert "Boats leak." in contents(build(character=card(character_book=embedded)))
    assert "Boats leak." not in contents(build(character=card(character_book=embedded), use_embedded_book=False))


def test_outlets_fill_their_macro():
    lore = book("w", "OUT", position=7, outletName="x")
    texts = contents(
        build(
            books=[lore],
            preset=preset(prompts=[custom("c", "[{{outlet::x}}]")], prompt_order=order("c", "chatHistory")),
        )
    )
    assert texts[0] == "[OUT]"


def test_media_are_parts_of_the_content():
    url = "data:image/png;base64,iVBORw0KGgo="
    chat = [{"name": "Mira", "is_user": True, "mes": "Look", "extra": {"media": [{"type": "image", "url": url}]}}]
    plan = build(history=chat, preset=preset(openai_model="gpt-4o"))
    assert plan.to_request()["messages"][-1]["content"][1]["image_url"]["url"] == url  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert plan.to_messages()[-1]["content"][1]["type"] == "image_url"  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


def test_system_messages_are_squashed_when_the_preset_says_so():
    plan = build(preset=preset(squash_system_messages=True))
    assert contents(plan)[0].count("\n") == 1
    assert len(plan.blocks) == 7


def test_a_first_message_that_sets_a_variable_does_so_before_the_card_is_read():
    chat = [{"name": "Lyra", "mes": "{{setvar::v::set}}Hi"}, {"name": "Mira", "is_user": True, "mes": "x"}]
    assert "v=set" in contents(build(history=chat, character=card(description="v={{getvar::v}}")))


def test_macros_of_messages_that_do_not_fit_never_run():
    variables = InMemoryVariablesStore()
    chat = [{"name": "Lyra", "mes": "Hi"}, {"name": "Lyra", "mes": "{{setvar::old::1}}" + "word " * 50}, *CHAT[1:]]
    plan = build(
        history=chat,
        variables=variables,
        preset=preset(openai_max_context=100, openai_max_tokens=10, new_chat_prompt=""),
    )
    plan.variables.apply(variables)
    assert variables.has("old"), "the first message that does not fit was expanded to be counted"
    chat = [
        {"name": "Lyra", "mes": "Hi"},
        {"name": "Lyra", "mes": "{{setvar::older::1}}"},
        {"name": "Lyra", "mes": "word " * 90},
        *CHAT[1:],
    ]
    plan = build(
        history=chat,
        variables=variables,
        preset=preset(openai_max_context=100, openai_max_tokens=10, new_chat_prompt=""),
    )
    plan.variables.apply(variables)
    assert not variables.has("older")


def test_a_power_user_may_strip_examples():
    settings = Settings(power_user=PowerUser(strip_examples=True))
    character = card(mes_example="<START>\n{{user}}: a\n{{char}}: b")
    assert "b" in contents(build(character=character))
    assert "b" not in contents(build(character=character, settings=settings))


def test_the_legacy_macro_engine_can_be_switched_on():
    settings = Settings(power_user=PowerUser(experimental_macro_engine=False))
    text = "{{getvar::k}}{{setvar::k::v}} {{if 1}}x{{/if}}"
    assert contents(build(message=text))[-1] == " x"
    assert contents(build(message=text, settings=settings))[-1] == "v {{if 1}}x{{/if}}"


def test_an_applications_estimator_counts_in_the_tokenizers_place():
    class Letters:
        def estimate(self, text: str, model_hint: str | None = None) -> int:
            return len(text)

    block = build(token_estimator=Letters()).blocks[-1]
    assert block.metadata["tokens"] == 4 + len("user") + len("Is Lyra alone?")


def test_hooks_that_change_the_seed_change_the_dice():
    hooks = HookRegistry()
    hooks.before_build(lambda state: state.change_inputs(seed=2))
    given = {"message": "{{roll::1d1000000}}", "seed": 1}
    assert contents(build(**given)) != contents(build(**given, hooks=hooks))
    assert contents(build(**given, hooks=hooks)) == contents(build(message=given["message"], seed=2))


@pytest.mark.parametrize(
    ("conditions", "sent"),
    [
        ({"chat": "alone"}, True),
        ({"chat": "kraken"}, False),
        ({"turns": {"min": 2}, "character": "Lyra"}, True),
        ({"turns": 5}, False),
        ({"any": [{"user": "Nobody"}, {"user": "Mira"}]}, True),
    ],
)
def test_a_prompt_may_depend_on_conditions(conditions: dict[str, Any], sent: bool):
    keys = preset(prompts=[custom("c", "C", conditions=conditions)], prompt_order=order("c", "chatHistory"))
    plan = build(preset=keys)
    assert ("C" in contents(plan)) is sent
    assert ("its conditions are not met" in [omission.reason for omission in plan.omissions]) is not sent


def test_blocks_kept_between_builds_still_name_their_own_speaker():
    builder = Builder(**inputs())
    for name in ("Lyra", "Bram"):
        block = builder.build(history=[{"name": name, "mes": "Same words."}]).blocks[-1]
        assert block.source["name"] == name  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
