"""Maps of next turns, which take texts of the last one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.cards import Character, User
from tavernkit.prompt import Block, HookRegistry, InjectionRegistry, Pipeline, Plan, SourceMap
from tavernkit.silly_tavern._world_info.engine import WorldInfoEngine
from tavernkit.stores import InMemoryVariablesStore
from tests.source_map.recorded import problems

USUAL = {"position": 0, "order": 100, "disable": False, "content": "{{char}} hates water."}
STORMS = {**USUAL, "key": ["storm"], "uid": 7}
TWIN = {**USUAL, "key": ["rain"], "uid": 8}
BOOK = {"entries": {"7": STORMS, "8": TWIN}}
LORE = [{"key": key, "content": USUAL["content"], "insertorder": 1} for key in ("storm", "rain")]


def silly_tavern(description: str = "{{char}} keeps the lamp.") -> Callable[..., Plan]:
    builder = st.Builder(
        character=Character(name="Aria", description=description, first_mes="Hello, {{user}}."),
        user=User(name="Ann"),
        books=[st.WorldBook.from_json(BOOK, name="weather")],
        seed=1,
    )

    def build(message: str, history: list[dict[str, Any]] | None = None, **more: Any) -> Plan:
        return builder.build(message=message, history=history or [], **more)

    return build


def risu(description: str = "{{char}} keeps the lamp.") -> Callable[..., Plan]:
    builder = risu_ai.Builder(
        character=risu_ai.RisuCharacter(name="Aria", description=description, first_message="Hello, {{user}}."),
        user=User(name="Ann"),
        modules=[risu_ai.RisuModule.from_json({"id": "m", "name": "weather", "lorebook": LORE})],
        seed=1,
    )

    def build(message: str, history: list[dict[str, Any]] | None = None, **more: Any) -> Plan:
        said = [
            {"role": "user" if line["role"] == "user" else "char", "data": line["content"]} for line in history or ()
        ]
        return builder.build(message=message, history={"message": said, "fmIndex": -1}, **more)

    return build


PLATFORMS = pytest.mark.parametrize("make", [silly_tavern, risu])


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Gets an item for each build."""
    found: list[object] = []
    run = Pipeline.run

    def counting(self: Pipeline[Any], state: Any) -> None:
        found.append(state)
        run(self, state)

    monkeypatch.setattr(Pipeline, "run", counting)
    return found


def checked(plan: Plan) -> SourceMap:
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []
    return found


def lore_ids(found: SourceMap) -> set[str]:
    return {source.id for place in found.where(" hates water.") for span in place.spans for source in span.sources}


SPEAKERS = {f"chat:chat/{line}/name" for line in range(3)}
"""The names of lines, which are traced only if lines are."""

CHAT = [{"role": "user", "content": "Hm."}, {"role": "assistant", "content": "The {{user}} nods."}]


@PLATFORMS
def test_the_map_of_a_next_turn_needs_no_build(make: Callable[[], Callable[..., Plan]], builds: list[object]) -> None:
    build, other = make(), make()
    checked(build("Hello there.", CHAT))
    plan = build("And now?", [*CHAT, {"role": "user", "content": "Hello there."}])
    again = other("And now?", [*CHAT, {"role": "user", "content": "Hello there."}])
    builds.clear()
    found = checked(plan)
    assert builds == []
    assert found.to_dict() == checked(again).to_dict()
    assert {each.id for each in found.given} | SPEAKERS == {each.id for each in again.source_map().given} | SPEAKERS
    assert len(builds) == 1


@PLATFORMS
def test_an_entry_with_the_same_words_is_told_apart(make: Callable[[], Callable[..., Plan]]) -> None:
    build = make()
    first, second = (checked(build(message)) for message in ("A storm.", "Some rain."))
    assert len(lore_ids(first)) == len(lore_ids(second)) == 1
    assert lore_ids(first) != lore_ids(second)


@PLATFORMS
def test_a_line_that_was_edited_to_the_same_words_is_traced_to_what_it_says(
    make: Callable[[], Callable[..., Plan]],
) -> None:
    build = make()
    checked(build("Hello there.", CHAT))
    found = checked(build("Hello there.", [CHAT[0], {"role": "assistant", "content": "The Ann {{trim}}nods."}]))
    fresh = checked(make()("Hello there.", [CHAT[0], {"role": "assistant", "content": "The Ann {{trim}}nods."}]))
    assert found.to_dict() == fresh.to_dict()


@PLATFORMS
def test_texts_with_other_macros_are_built_again(
    make: Callable[[str], Callable[..., Plan]], builds: list[object]
) -> None:
    build = make("{{getvar::colour}}{{char}} keeps the lamp.")
    checked(build("Hello there."))
    plan = build("And now?")
    builds.clear()
    assert checked(plan).where("keeps the lamp")
    assert len(builds) == 1


@PLATFORMS
def test_another_user_is_not_taken_for_the_last_one(make: Callable[[], Callable[..., Plan]]) -> None:
    build = make()
    checked(build("Hello there.", CHAT))
    found = checked(build("Hello there.", CHAT, user=User(name="Ann")))
    assert found.where("The Ann nods.")
    (place,) = checked(build("Hello there.", CHAT, user=User(name="Bel"))).where("Bel nods.")
    assert place.spans[0].sources[0].name == "Bel"


@PLATFORMS
def test_lines_that_are_the_same_object_are_told_apart(make: Callable[[], Callable[..., Plan]]) -> None:
    same = "Over there."
    history = [{"role": "user", "content": same}, {"role": "assistant", "content": "Yes."}] * 2
    build = make()
    for _ in range(2):
        places = checked(build("Hm?", history)).where(same)
        pointers = [source.pointer for place in places for span in place.spans for source in span.sources]
        assert [pointer.strip("/").split("/")[-2] for pointer in pointers] == ["0", "2"]


def test_sequences_with_the_same_words_are_told_apart() -> None:
    instruct = st.InstructTemplate(input_sequence="### Q", last_input_sequence="### Q", output_sequence="### A")
    builder = st.Builder(
        character=Character(name="Aria"),
        user=User(name="Ann"),
        dialect="text",
        instruct=instruct,
        context_template=st.ContextTemplate(),
        context_length=100_000,
    )
    history = [{"role": ("user", "assistant")[index % 2], "content": f"Line {index}."} for index in range(100)]
    for count in (80, 82, 98, 100):
        found = checked(builder.build(history=history[:count], message="And?"))
        pointers = [place.spans[0].sources[0].pointer for place in found.where("### Q")]
        assert set(pointers[:-1]) == {"/input_sequence"}
        assert pointers[-1] == "/last_input_sequence"


def test_another_order_of_lore_keeps_the_texts_without_lore(builds: list[object]) -> None:
    build = silly_tavern()
    checked(build("A storm.", CHAT))
    checked(build("Some rain.", CHAT))
    plan = build("Nothing at all.", CHAT)
    builds.clear()
    assert not checked(plan).where(" hates water.")
    assert builds == []


LONG = [{"role": "assistant" if line % 2 else "user", "content": f"{{{{user}}}} says {line}."} for line in range(120)]


def lines_of(state: Any) -> int:
    """Return how many lines a build has now."""
    context = state.context
    return len(context.log.lines) if isinstance(context, st.SillyTavernContext) else len(context.chat.messages)


@PLATFORMS
def test_hooks_see_the_whole_chat_and_the_rest_of_the_map_a_part_of_it(
    make: Callable[[], Callable[..., Plan]], builds: list[Any]
) -> None:
    seen: list[int] = []
    hooks = HookRegistry()

    @hooks.before_build
    def _shout(state: Any) -> None:
        seen.append(lines_of(state))
        state.change_inputs(message=state.context.message.upper())

    build = make()
    checked(build("Hello there.", LONG, hooks=hooks))
    chat = [*LONG, {"role": "user", "content": "Hello there."}]
    plan = build("And now?", chat, hooks=hooks)
    builds.clear()
    seen.clear()
    found = checked(plan)
    assert seen == [len(chat)]
    assert [lines_of(state) < len(chat) for state in builds] == [True]
    assert found.where("AND NOW?")
    assert found.to_dict() == checked(make()("And now?", chat, hooks=hooks)).to_dict()


def _counts(state: Any) -> None:
    state.change_inputs(message=f"{state.context.message} {lines_of(state)}")


def _leaves_the_chat_out(state: Any) -> None:
    state.change_inputs(history=[])


def _adds_a_block(state: Any) -> None:
    state.plan = state.plan.append_block(Block("system", f"There are {lines_of(state)} lines in the chat.", id="lines"))


@PLATFORMS
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("hook", [_counts, _leaves_the_chat_out, _adds_a_block])
def test_maps_with_hooks_are_those_of_a_new_builder(
    make: Callable[[], Callable[..., Plan]], hook: Callable[[Any], None], text: bool
) -> None:
    hooks = HookRegistry()
    (hooks.after_build if hook is _adds_a_block else hooks.before_build)(hook)
    more: dict[str, Any] = {"dialect": "text"} if text and make is silly_tavern else {}
    build = make()
    checked(build("Hello there.", LONG, hooks=hooks, **more))
    chat = [*LONG, {"role": "user", "content": "Hello there."}]
    found = checked(build("And now?", chat, hooks=hooks, **more))
    assert found.to_dict() == checked(make()("And now?", chat, hooks=hooks, **more)).to_dict()


def text_builder(sequence: str = "### Q", hooks: HookRegistry | None = None) -> st.Builder:
    """A builder of text prompts whose system prompt sets a variable."""
    return st.Builder(
        character=Character(name="Aria", description="{{char}} keeps the lamp.", first_mes="Hello, {{user}}."),
        user=User(name="Ann"),
        books=[st.WorldBook.from_json(BOOK, name="weather")],
        context_template=st.ContextTemplate(story_string="{{wiBefore}}\n{{description}}\n"),
        system_prompt=st.SystemPrompt(enabled=True, content="{{setvar::mood::calm}}"),
        instruct=st.InstructTemplate(enabled=True, input_sequence=sequence, output_sequence="### A"),
        hooks=hooks,
        seed=1,
        dialect="text",
    )


@pytest.mark.parametrize(
    ("message", "sequence", "halves"),
    [
        ("And now?", "### Q", ["chat"]),
        ("And now?", "### Q, {{getvar::mood}}", ["chat", None]),
        ("Is it {{random::in::out}}?", "### Q", [None]),
    ],
)
def test_new_lines_are_built_without_the_story_string_unless_they_read_what_it_sets(
    message: str, sequence: str, halves: list[str | None], builds: list[Any]
) -> None:
    hooks = HookRegistry()

    @hooks.before_build
    def _shout(state: Any) -> None:
        state.change_inputs(message=state.context.message.upper())

    variables = InMemoryVariablesStore()
    variables.set("mood", "calm", scope="local")
    given: dict[str, Any] = {"history": LONG, "variables": variables}
    builder = text_builder(sequence, hooks)
    for earlier in ("Hello there.", "And then?"):
        checked(builder.build(message=earlier, **given))
    plan = builder.build(message=message, **given)
    builds.clear()
    found = checked(plan)
    assert [state.half for state in builds] == halves
    assert found.to_dict() == checked(text_builder(sequence, hooks).build(message=message, **given)).to_dict()


def shouts(more: str = "") -> HookRegistry:
    hooks = HookRegistry()
    hooks.before_build(lambda state: state.change_inputs(message=state.context.message.upper() + more))
    return hooks


@pytest.mark.parametrize(("more", "half"), [("", "chat"), (" {{getvar::mood}}", None)])
def test_of_a_message_that_hooks_changed_only_the_hooks_run_again(
    more: str, half: str | None, builds: list[Any]
) -> None:
    def build(builder: st.Builder, message: str) -> Plan:
        return builder.build(message=message, history=LONG, dialect="openai")

    builder = text_builder(hooks=shouts(more))
    checked(build(builder, "Hello there."))
    plan = build(builder, "And now?")
    builds.clear()
    found = checked(plan)
    assert found.where("AND NOW?")
    assert [(state.half, bool(state.core)) for state in builds] == [(half, half is None)]
    assert found.to_dict() == checked(build(text_builder(hooks=shouts(more)), "And now?")).to_dict()


def test_a_message_that_hooks_change_differently_when_they_run_again_is_aligned() -> None:
    hooks, turns = HookRegistry(), iter("ABCDEFGH")
    hooks.before_build(lambda state: state.change_inputs(message=state.context.message + next(turns)))
    builder = text_builder(hooks=hooks)
    for message in ("Hello there.", "And now?"):
        found = builder.build(message=message, history=LONG, dialect="openai").source_map()
        (place,) = found.where(message)
        assert not found.exact
        assert place.spans[0].kind == "aligned"


def test_new_lines_are_built_with_the_lore_of_the_plan(builds: list[Any]) -> None:
    at_depth = {**STORMS, "position": 4, "depth": 1, "constant": True}
    books = [st.WorldBook.from_json({"entries": {"7": at_depth}}, name="weather")]
    given: dict[str, Any] = {"history": LONG, "books": books}
    builder = text_builder(hooks=shouts())
    for earlier in ("Hello there.", "And then?"):
        checked(builder.build(message=earlier, **given))
    plan = builder.build(message="And now?", **given)
    builds.clear()
    found = checked(plan)
    assert found.where(" hates water.")
    assert [(state.half, state.lore_result is plan.lore_result) for state in builds] == [("chat", True)]
    assert found.to_dict() == checked(text_builder(hooks=shouts()).build(message="And now?", **given)).to_dict()


@pytest.mark.parametrize("dialect", ["text", "openai"])
def test_other_lore_is_built_without_the_chat(dialect: str, builds: list[Any]) -> None:
    given: dict[str, Any] = {"history": LONG, "dialect": dialect}
    builder = text_builder()
    checked(builder.build(message="Some rain.", **given))
    plan = builder.build(message="A storm.", **given)
    builds.clear()
    found = checked(plan)
    assert [(state.half, state.layout, state.draft.messages) for state in builds] == [("story", None, [])]
    assert found.to_dict() == checked(text_builder().build(message="A storm.", **given)).to_dict()


@pytest.mark.parametrize("dialect", ["text", "openai"])
@pytest.mark.parametrize(("content", "scans"), [("{{char}} hides.", 0), ("{{char}} {{getvar::mood}}hides.", 1)])
def test_other_lore_is_not_scanned_for_again_if_its_macros_give_the_same_in_every_turn(
    content: str, scans: int, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {str(uid): {**USUAL, "key": [key], "uid": uid} for uid, key in ((1, "rain"), (2, "storm"))}
    entries["2"]["content"] = content
    books = [st.WorldBook.from_json({"entries": entries}, name="weather")]
    given: dict[str, Any] = {"history": LONG, "dialect": dialect, "books": books}
    builder = text_builder()
    checked(builder.build(message="Some rain.", **given))
    plan = builder.build(message="A storm and some rain.", **given)
    seen: list[object] = []
    scan = WorldInfoEngine.scan
    monkeypatch.setattr(WorldInfoEngine, "scan", lambda self, given: seen.append(given) or scan(self, given))
    found = checked(plan)
    assert len(seen) == scans
    fresh = checked(text_builder().build(message="A storm and some rain.", **given))
    assert found.to_dict() == fresh.to_dict()
    uses = [{use.source: use.to_dict() for use in each.uses("lore:weather")} for each in (found, fresh)]
    assert len(uses[0]) == 2
    assert uses[0] == uses[1]


def _of_the_preset(content: str, **more: object) -> dict[str, Any]:
    prompts = [
        {"identifier": "main", "content": "Be brief."},
        {"identifier": "own", "role": "system", "content": content, "system_prompt": False, **more},
    ]
    order = [{"identifier": each, "enabled": True} for each in ("main", "own", "chatHistory")]
    return {
        "preset": st.Preset.from_json(
            {
                "prompts": [*prompts, {"identifier": "chatHistory", "marker": True}],
                "prompt_order": [{"character_id": 100001, "order": order}],
            }
        )
    }


def _registered(content: str, position: Any) -> dict[str, Any]:
    registry = InjectionRegistry()
    registry.register("mood", content, position)
    return {"injections": registry}


@pytest.mark.parametrize(
    ("inputs", "half"),
    [
        (_of_the_preset("A {{getvar::mood}} voice."), "story"),
        (_of_the_preset("A {{getvar::mood}} voice.", injection_position=1, injection_depth=2), None),
        (_registered("A {{getvar::mood}} voice.", "before_prompt"), "story"),
        (_registered("A {{getvar::mood}} voice.", "in_prompt"), "story"),
        (_registered("A {{getvar::mood}} voice.", "in_chat"), None),
    ],
)
def test_prompts_around_the_chat_are_built_without_it(
    inputs: dict[str, Any], half: str | None, builds: list[Any]
) -> None:
    def builder() -> st.Builder:
        return st.Builder(character=Character(name="Aria"), user=User(name="Ann"), seed=1, **inputs)

    def given(mood: str) -> dict[str, Any]:
        variables = InMemoryVariablesStore()
        variables.set("mood", mood, scope="local")
        return {"history": LONG, "message": "And?", "variables": variables}

    known = builder()
    checked(known.build(**given("calm")))
    plan = known.build(**given("wild"))
    builds.clear()
    found = checked(plan)
    assert found.where("A wild voice.")
    assert [state.half for state in builds] == [half]
    assert found.to_dict() == checked(builder().build(**given("wild"))).to_dict()


def test_words_that_a_macro_takes_from_an_old_line_lead_to_it() -> None:
    said = [*CHAT, {"role": "user", "content": "Who keeps the lamp of Eldoria?"}]
    said += [{"role": "assistant", "content": f"A pause of {line} breaths."} for line in range(8)]
    found = checked(silly_tavern("He asked: {{lastUserMessage}}")("", said))
    assert found.exact
    places = found.where("Who keeps the lamp of Eldoria?")
    assert len(places) == 2
    assert all("chat:chat/2/mes" in {source.id for span in place.spans for source in span.sources} for place in places)


def test_lines_without_a_form_are_built_again_only_once(builds: list[object]) -> None:
    """A script that writes into every line: no line shows how the others are written, but each stays as it is."""
    script = {
        "scriptName": "sigh",
        "placement": [1, 2],
        "promptOnly": True,
        "findRegex": "/^/",
        "replaceString": "Hm. ",
    }
    scripts = st.RegexScripts.from_settings({"regex": [script]})
    said = [{"role": ("user", "assistant")[line % 2], "content": f"So says {line}."} for line in range(40)]
    build = silly_tavern()
    for count in (30, 32, 34):
        plan = build("And now?", said[:count], regex_scripts=scripts)
        builds.clear()
        found = checked(plan)
        assert found.exact
        assert len(builds) <= (2 if count == 30 else 1)
    assert len(found.where("Hm. So says")) == 34


def test_scripts_are_in_the_map_of_a_plan_that_has_more_than_its_build() -> None:
    script = {"scriptName": "shout", "placement": [1, 2], "promptOnly": True}
    script |= {"findRegex": "/says/g", "replaceString": "SAYS"}
    scripts = st.RegexScripts.from_settings({"regex": [script]})
    said = [{"role": ("user", "assistant")[line % 2], "content": f"He says {line}."} for line in range(30)]
    build = silly_tavern()
    for message in ("Hello there.", "And now?"):
        plan = build(message, said, regex_scripts=scripts).append_block(Block("system", "Answer now.", id="more"))
        found = plan.source_map()
        assert [text.text for text in found.messages] == [sent.content for sent in plan.messages]
        (place,) = found.where("SAYS 8")
        assert [(span.kind, span.name) for span in place.spans] == [("replaced", "shout"), ("verbatim", "")]
