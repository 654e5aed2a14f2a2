"""The VibeTavern pipeline: blocks, templates, language policy, budget."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards._character import Character, User
from tavernkit.errors import ConfigError, MaxTokensExceededError, PipelineError, StrictModeError
from tavernkit.prompt import HookRegistry, InjectionRegistry
from tavernkit.prompt._block import Block
from tavernkit.prompt._trace import TraceCollector
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern import PIPELINE, Builder, RunnerConfig, build, to_messages
from tavernkit.vibe_tavern._context import VibeTavernContext, VibeTavernState
from tavernkit.vibe_tavern._steps import (
    LanguagePolicyConfig,
    canonical_language,
    insertion_index,
    policy_text,
)
from tests.vibe_tavern.support import scripted

CARD = Character(
    name="Sera",
    nickname="Sephy",
    system_prompt="Stay in character.",
    description="An elf.",
    personality="Kind.",
    scenario="A glade.",
    post_history_instructions="Be {{brief}}.",
)
USER = User("Ann", "A knight.")


def sources(blocks: Any) -> list[object]:
    return [block.source for block in blocks]


def test_order_is_visible_at_a_glance() -> None:
    assert PIPELINE.names == ("prepare", "plan_assembly", "language_policy", "max_tokens")


def test_history_and_user_message_become_blocks() -> None:
    history = [
        {"role": "user", "content": "a", "name": "Ann"},
        {"role": "assistant", "content": "", "metadata": {"tool_calls": [{"id": "1"}]}},
    ]
    plan = build(history=history, message="  raw  ")
    assert sources(plan.blocks) == ["history", "history", "user_message"]
    assert [block.slot for block in plan.blocks] == ["history", "history", "user_message"]
    assert {block.token_budget_group for block in plan.blocks} == {"history"}
    assert plan.blocks[-1].content == "  raw  "
    assert plan.to_messages()[0] == {"role": "user", "content": "a", "name": "Ann"}
    assert plan.to_messages()[1]["tool_calls"] == [{"id": "1"}]


@pytest.mark.parametrize("message", ["", " \n\t"])
def test_blank_user_message_is_left_out(message: str) -> None:
    assert build(message=message).blocks == ()


def test_card_and_persona_make_the_system_text() -> None:
    plan = build(character=CARD, user=USER, message="hi")
    assert sources(plan.blocks) == ["default_system", "post_history_instructions", "user_message"]
    assert plan.blocks[0].content == (
        "Stay in character.\n\nYou are Sephy.\n\nAn elf.\n\nKind.\n\nScenario:\nA glade.\n\nUser persona:\nA knight."
    )
    assert plan.blocks[1].content == "Be {{brief}}."
    assert plan.blocks[1].token_budget_group == "system"


def test_every_block_is_explained_in_words() -> None:
    inputs: Any = {
        "character": CARD,
        "user": USER,
        "system_text": "Hm.",
        "history": [Block("user", "a")],
        "message": "b",
    }
    plans = [
        Builder(policy(target_lang="ja")).build(**inputs),
        build(system_template="x", post_history_template="y", **inputs),
    ]
    assert [row.source for row in plans[0].explain().blocks] == [
        *("default system", "system text", "history", "post history instructions", "language policy", "user message")
    ]
    assert all(row.reason for plan in plans for row in plan.explain().blocks)


def test_hooks_run_before_and_after_a_build() -> None:
    hooks = HookRegistry()

    @hooks.before_build
    def shout(state: Any) -> None:
        state.change_inputs(message=state.context.message.upper())

    @hooks.after_build
    def end(state: Any) -> None:
        state.plan = state.plan.append_block(Block("system", "The end."))

    plan = build(message="hi", character=CARD, hooks=hooks)
    assert [block.content for block in plan.blocks][2:] == ["HI", "The end."]
    assert [span.source and span.source.pointer for span in plan.where("An elf.")[0].spans] == ["/data/description"]
    runner, _ = scripted("ok")
    request = runner.build_request(RunnerConfig.build(provider="x", model="m", context={"hooks": hooks}), message="hi")
    assert [each["content"] for each in request.messages] == ["HI", "The end."]


def test_macro_vars_are_variables_of_templates() -> None:
    plan = build(macro_vars={"Weather": "rain"}, system_template="{{ weather }} {{ char }}", character=CARD)
    assert plan.blocks[0].content == "rain Sephy"


def test_injections_are_left_out_with_a_warning() -> None:
    injections = InjectionRegistry()
    assert build(message="hi", injections=injections).warnings == ()
    injections.register("weather", "It rains.")
    (said,) = build(message="hi", injections=injections, warn=None).warnings
    assert said.startswith("VibeTavern leaves injections out")


def test_templates_replace_the_built_in_texts() -> None:
    store = InMemoryVariablesStore({"local": {"mood": "glad"}})
    plan = build(
        character=CARD,
        user=USER,
        variables=store,
        system_template="{{ char }} is {{ var.mood }}.{% setvar mood = 'sad' %}",
        post_history_template=None,
    )
    assert [(block.source, block.content) for block in plan.blocks] == [("system_template", "Sephy is glad.")]
    assert store.get("mood") == "glad", "a build changes nothing"
    plan.variables.apply(store)
    assert store.get("mood") == "sad"


@pytest.mark.parametrize("template", [None, "", "  "])
def test_blank_template_switches_the_text_off(template: str | None) -> None:
    assert build(character=CARD, system_template=template, post_history_template=template).blocks == ()


def test_broken_template_passes_through_with_a_warning_and_is_an_error_in_strict_mode() -> None:
    plan = build(system_template="{% nope %}", warn=None)
    assert plan.blocks[0].content == "{% nope %}"
    assert len(plan.warnings) == 1
    with pytest.raises(PipelineError):
        build(system_template="{% nope %}", strict=True)


def test_failing_text_builder_falls_back_to_the_built_in_text() -> None:
    def failing(_: VibeTavernState) -> str:
        raise RuntimeError("kaput")

    pipeline = PIPELINE.configure("plan_assembly", default_system_text_builder=failing)
    plan = Builder(pipeline, character=CARD, warn=None).build()
    assert "You are Sephy." in plan.blocks[0].content
    assert "kaput" in plan.warnings[0]


def test_text_builder_writes_the_system_text() -> None:
    pipeline = PIPELINE.configure("plan_assembly", default_system_text_builder=lambda _: "Mine.")
    assert Builder(pipeline, character=CARD).build().blocks[0].content == "Mine."


def test_system_text_of_a_request_stands_after_the_cards() -> None:
    plan = build(character=Character(name="Sera"), system_text="SYS", message="hi")
    assert [block.content for block in plan.blocks] == ["You are Sera.", "SYS", "hi"]


def test_prepare_settles_hint_and_estimator() -> None:
    class Fixed:
        def estimate(self, text: str, model_hint: str | None = None) -> int:
            return 7

    def prepared(**inputs: object) -> VibeTavernState:
        state = VibeTavernState(VibeTavernContext.make(**inputs))
        PIPELINE["prepare"].before(state)
        return state

    state = prepared(default_model_hint="deepseek/deepseek-v3.2:nitro")
    assert (state.model_hint, state.model_hint_source, state.token_estimator_source) == (
        "deepseek-v3.2",
        "default",
        "default",
    )
    given = {"token_estimation": {"model_hint": "qwen/qwen3-8b", "token_estimator": Fixed()}}
    state = prepared(default_model_hint="x", data=given)
    assert (state.model_hint, state.model_hint_source, state.token_estimator_source) == ("qwen3", "context", "context")
    state = prepared(model_hint="kept/as-is", data={"token_estimation": {"registry": {"*": {}}}})
    assert (state.model_hint, state.token_estimator_source) == ("kept/as-is", "context_registry")
    for wrong in ("text", {"token_estimator": 5}, {"registry": []}):
        with pytest.raises(ConfigError):
            prepared(data={"token_estimation": wrong})


def test_budget_is_refused_with_the_numbers() -> None:
    pipeline = PIPELINE.configure("max_tokens", max_tokens=3, mode="error")
    with pytest.raises(MaxTokensExceededError) as caught:
        Builder(pipeline).build(message="one two three four five six seven eight nine ten")
    assert caught.value.max_tokens == 3


def test_trace_and_late_warnings_are_on_the_plan() -> None:
    collector = TraceCollector()
    pipeline = PIPELINE.configure("max_tokens", max_tokens=1, mode="warn")
    plan = Builder(pipeline, warn=None, instrumenter=collector).build(message="one two three")
    assert len(plan.warnings) == 1
    assert plan.trace is not None
    assert [step.name for step in plan.trace.steps] == list(PIPELINE.names)


def test_to_messages_builds_and_converts() -> None:
    assert to_messages(dialect="anthropic", message="hi") == {
        "system": "",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def policy(**options: Any) -> Any:
    return PIPELINE.configure("language_policy", enabled=True, **options)


def test_language_policy_stands_before_the_user_message() -> None:
    plan = Builder(policy(target_lang="JA")).build(history=[{"role": "user", "content": "a"}], message="b")
    assert sources(plan.blocks) == ["history", "language_policy", "user_message"]
    assert plan.blocks[1].metadata["target_lang"] == "ja-JP"
    assert plan.blocks[1].content == policy_text("ja-JP")


def test_unsupported_language_warns_and_missing_one_is_an_error() -> None:
    plan = Builder(policy(target_lang="fr"), warn=None).build(message="x")
    assert sources(plan.blocks) == ["user_message"]
    assert "fr" in plan.warnings[0]
    with pytest.raises(ConfigError) as caught:
        Builder(policy()).build(message="x")
    assert caught.value.code == "TARGET_LANG_REQUIRED"
    with pytest.raises((StrictModeError, PipelineError)):
        Builder(policy(target_lang="fr"), strict=True).build(message="x")


def test_supported_languages_are_the_applications_choice() -> None:
    pipeline = policy(target_lang="fr_fr", supported_languages=["fr-FR"], style_hint=" terse ")
    text = Builder(pipeline).build(message="x").blocks[0].content
    assert "in fr-FR," in text
    assert "Tone: terse." in text


def test_policy_text_may_be_written_by_the_application() -> None:
    pipeline = policy(target_lang="ko", policy_text_builder=lambda lang, *_: f"Speak {lang}!")
    assert Builder(pipeline).build(message="x").blocks[0].content == "Speak ko-KR!"
    silent = policy(target_lang="ko", policy_text_builder=lambda *_: " ")
    assert sources(Builder(silent).build(message="x").blocks) == ["user_message"]


@pytest.mark.parametrize(
    ("roles", "index"),
    [
        ("", 0),
        ("S", 1),
        ("SA", 2),
        ("SU", 1),
        ("SUU", 1),
        ("SUCT", 2),
        ("SUCTT", 2),
        ("SUCTU", 2),
        ("SUAU", 3),
        ("T", 0),
    ],
)
def test_policy_never_splits_a_tool_round(roles: str, index: int) -> None:
    names = {"S": "system", "U": "user", "A": "assistant", "C": "assistant", "T": "tool"}
    blocks = [
        Block(role=names[role], content="x", message_metadata={"tool_calls": [{"id": "1"}]} if role == "C" else None)
        for role in roles
    ]
    assert insertion_index(blocks) == index


def test_language_names_have_one_spelling() -> None:
    spellings = {
        "zh_hans": "zh-CN",
        "ZH-Hant-TW": "zh-TW",
        "en": "en-US",
        "yue": "yue-HK",
        "fr_ca": "fr-CA",
        "??": "??",
    }
    assert {name: canonical_language(name) for name in spellings} == spellings


def test_policy_config_is_read_tolerantly() -> None:
    config = LanguagePolicyConfig.from_mapping(
        {"enabled": "yes", "special_tags": " lang , lang, ooc", "target_lang": " "}
    )
    assert (config.enabled, config.special_tags, config.target_lang) == (True, ("lang", "ooc"), None)
    assert "Keep the inside of these tags as it is: lang, ooc." in policy_text("en-US", None, config.special_tags)
    with pytest.raises(ConfigError):
        LanguagePolicyConfig.from_mapping("on")
    with pytest.raises(ConfigError):
        LanguagePolicyConfig(policy_text_builder=5)  # pyright: ignore[reportArgumentType]


def test_dice_of_a_template_use_the_seed_of_the_context() -> None:
    template = '{{ "1000000" | rollp }}'
    first, again, other = (build(system_template=template, seed=seed).blocks[0].content for seed in (1, 1, 2))
    assert first == again != other
    assert build(system_template=template, seed=1, data={"rng_word": "2"}).blocks[0].content == other
