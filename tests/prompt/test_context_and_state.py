from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError, StrictModeError
from tavernkit.prompt import Block, BuildState, Context, HookRegistry, InjectionRegistry, Message
from tavernkit.stores import InMemoryVariablesStore


def test_a_mapping_becomes_inputs_and_application_data() -> None:
    context = Context.from_mapping({"message": "hi", "ChatStyle": "short", "HTTPServer": {"Port": 1}, "-": 1})
    assert context.message == "hi"
    assert context["chat_style"] == "short"
    assert context["http_server"] == {"Port": 1}
    assert "chat_style" in context
    assert context.get("missing", "x") == "x"


def test_step_configs_of_a_mapping_go_by_another_name_too() -> None:
    other, own = {"trimming": {"x": 1}}, {"trimming": {"x": 2}}
    assert Context.from_mapping({"moduleConfigs": other}).step_configs == other
    both = Context.from_mapping({"module_configs": other, "step_configs": own})
    assert both.step_configs == own
    assert not both.data


def test_a_context_is_frozen_and_changed_by_copy() -> None:
    context = Context(message="one")
    with pytest.raises(AttributeError):
        context.message = "two"  # type: ignore[misc]
    assert context.replace(message="two").message == "two"
    assert context.message == "one"


def test_history_is_accepted_in_every_usual_form() -> None:
    given = [Message("user", "a"), {"role": "Assistant", "content": "b", "sendDate": 5}]
    context = Context.make(history=given)
    assert [(m.role, m.content, m.send_date) for m in context.history] == [("user", "a", None), ("assistant", "b", 5)]


@pytest.mark.parametrize("bad", ["text", 5, {"role": "user"}])
def test_what_is_no_history_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError, match="history"):
        Context.make(history=bad)


def test_step_configs_must_be_mappings_of_mappings() -> None:
    with pytest.raises(ConfigError, match="step_configs"):
        Context.make(step_configs=[])
    with pytest.raises(ConfigError, match="trimming"):
        Context.make(step_configs={"trimming": 5})
    assert Context.make(step_configs={" Plan-Assembly ": {"x": 1}}).step_configs == {"plan_assembly": {"x": 1}}


def test_macro_variables_are_lower_cased() -> None:
    assert Context.make(macro_vars={"Mood": "glad"}).macro_vars == {"mood": "glad"}


def test_inputs_can_be_changed_only_by_before_build_hooks() -> None:
    state = BuildState(Context(message="hi", warn=None))
    with pytest.raises(ConfigError, match="before-build hook"):
        state.change_inputs(message="x")
    hooks = HookRegistry()
    order: list[str] = []

    @hooks.before_build
    def shout(state: BuildState[Context]) -> None:
        order.append("first")
        state.change_inputs(message=state.context.message.upper())

    @hooks.before_build
    def note(state: BuildState[Context]) -> None:
        order.append("second")

    @hooks.after_build
    def finish(state: BuildState[Context]) -> None:
        order.append("after")

    hooks.run_before_build(state)
    hooks.run_after_build(state)
    assert state.context.message == "HI"
    assert order == ["first", "second", "after"]
    with pytest.raises(ConfigError):
        state.change_inputs(message="x")


def test_a_store_is_made_when_none_is_given() -> None:
    state = BuildState(Context())
    state.variables.set("a", 1)
    assert state.variables.get("a") == 1


def test_a_build_reads_the_chats_variables_and_keeps_its_own_changes() -> None:
    given = InMemoryVariablesStore({"local": {"a": 1, "b": 2}})
    variables = BuildState(Context(variables=given)).variables
    variables.add("a", 4)
    variables.delete("b")
    assert (variables.get("a"), variables.has("b")) == (5, False)
    assert given.to_dict() == {"local": {"a": 1, "b": 2}}
    variables.changes().apply(given)
    assert given.to_dict() == {"local": {"a": 5}}


def test_a_copy_of_the_state_is_independent_one_level_deep() -> None:
    state = BuildState(Context())
    twin = state.copy()
    twin.blocks.append(Block("system", "x"))
    twin.metadata["a"] = 1
    assert state.blocks == []
    assert state.metadata == {}


def test_warnings_reach_the_handler() -> None:
    heard: list[str] = []
    state = BuildState(Context(warn=heard.append))
    state.warn("careful")
    assert heard == state.warnings == ["careful"]


def test_the_same_warning_is_reported_once() -> None:
    heard: list[str] = []
    state = BuildState(Context(warn=heard.append))
    for message in ("careful", "careful", "more careful"):
        state.warn(message)
    twin = state.copy()
    twin.warn("careful")
    assert heard == state.warnings == twin.warnings == ["careful", "more careful"]
    strict = BuildState(Context(strict=True))
    for _ in range(2):
        with pytest.raises(StrictModeError, match="careful"):
            strict.warn("careful")


def test_injections_replace_by_id_and_iterate_in_id_order() -> None:
    registry = InjectionRegistry()
    registry.register("b", "two", "in_chat", depth=-3, role="user", ephemeral=True)
    registry.register("a", "one", "before_prompt")
    registry.register("b", "three", "in_prompt")
    assert [(entry.id, entry.content, entry.position) for entry in registry] == [
        ("a", "one", "before"),
        ("b", "three", "after"),
    ]
    registry.register("c", "x", "chat", depth=-3, ephemeral=True)
    assert registry.ephemeral_ids == ("c",)
    assert [entry.depth for entry in registry if entry.in_chat] == [0]
    registry.remove("c")
    assert "c" not in registry
    assert len(registry) == 2


def test_injections_refuse_what_cannot_work() -> None:
    registry = InjectionRegistry()
    with pytest.raises(ConfigError, match="position"):
        registry.register("a", "x", "sideways")
    assert registry.register("a", None).content == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"id": 5}, {"content": 5}, {"role": None}, {"depth": "4"}, {"scan": "yes"}, {"ephemeral": 1}, {"filter": 5}],
)
def test_injections_say_what_to_pass(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        InjectionRegistry().register(**{"id": "a", "content": "x", **wrong})


def test_hooks_must_be_functions() -> None:
    for register in (HookRegistry().before_build, HookRegistry().after_build):
        with pytest.raises(ConfigError, match="hook must be a function"):
            register("shout")  # pyright: ignore[reportArgumentType]


def test_a_failing_filter_warns_and_counts_as_active() -> None:
    state = BuildState(Context(warn=None))
    registry = InjectionRegistry()

    def broken(state: BuildState[Context]) -> bool:
        raise KeyError("mood")

    assert registry.register("a", "x", filter=broken).active_for(state)
    assert "filter of injection 'a'" in state.warnings[0]
    assert not registry.register("b", "x", filter=lambda state: False).active_for(state)
