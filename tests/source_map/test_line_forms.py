"""Lines that are written alike: the sources of one are those of all, and no line is taken for such that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hypothesis

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._text.traced import Origin, added, expanded, pieces_of, plain, replaced, trace, tracing
from tavernkit.cards import Character, User
from tavernkit.prompt import InjectionRegistry, Plan, SourceMap, TextSource, _line_forms
from tavernkit.prompt._known_texts import KnownTexts
from tavernkit.prompt._line_forms import LineForm, form_of
from tavernkit.prompt._steady_texts import has_one_branch
from tavernkit.prompt._traced_spans import OpenSpan, finished_spans, source_of, spans_of
from tavernkit.silly_tavern._scripts.prompt_scripts import ChosenScripts
from tavernkit.silly_tavern._services import Services
from tests.source_map.recorded import RISU_AI, TEXT, plans, problems

TEMPLATE = Origin("instruct template", "Waves", "/input_sequence", "### {{name}}:")
SUFFIX = Origin("instruct template", "Waves", "/input_suffix", "</s>")


@contextmanager
def one_by_one() -> Iterator[None]:
    """Lines are built one by one inside the ``with`` block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_line_forms, "FEW_LINES", 10**9)
        patch.setattr(ChosenScripts, "result", lambda *_, **__: None)
        yield


def origins(said: str, line: int = 0, name: str = "Ann") -> tuple[Origin, Origin]:
    """The places of a line's words and of its name."""
    return Origin("chat", "chat", f"/{line}/mes", said, name), Origin("chat", "chat", f"/{line}/name", name, name)


def written(words: Origin, name: Origin) -> str:
    """A line as an instruct template writes it."""
    before = trace("### ", TEMPLATE) + expanded(trace(name.text, name), "name", trace("{{name}}", TEMPLATE, 4))
    return before + trace(":", TEMPLATE, 12) + added("\n", "wrap") + trace(words.text, words) + trace("</s>", SUFFIX)


def shown(text: str) -> list[object]:
    """The pieces of a text, comparable with those of another build."""
    return [
        (start, end, offset, origin and (origin.kind, origin.name, origin.pointer), via and via.change.name)
        for start, end, origin, offset, via in pieces_of(text)
    ]


def test_a_line_is_traced_as_the_one_that_shows_its_form() -> None:
    with tracing():
        first, other = origins("Hello there."), origins("Who rules Eldoria?", 7)
        form = form_of(written(*first), len("### Ann:\n"), *first)
        assert form is not None
        text = written(*other)
        made = form.write(str(text), trace(other[0].text, other[0]), other[1])
        assert shown(made) == shown(text)
        words, name = map(source_of, other)
        assert finished_spans(form.spans(0, words, name)) == spans_of(made) == spans_of(text)
        found = finished_spans(form.spans(5, words, name))
        assert [(span.start, span.end) for span in found] == [(span.start + 5, span.end + 5) for span in spans_of(text)]


def test_a_line_without_anything_around_it_has_a_form() -> None:
    words, name = origins("Hello there.")
    form = form_of(trace(words.text, words), 0, words, name)
    assert form is not None
    assert not form.before
    assert not form.after
    assert form.name is None
    words, name = origins("Hm.", 3)
    assert shown(form.write("Hm.", trace("Hm.", words), name)) == [(0, 3, 0, ("chat", "chat", "/3/mes"), None)]


LORE = Origin("lore", "weather", "/entries/0/content", "A storm.")
REASONING = Origin("chat", "chat", "/0/extra/reasoning", "She lies.")
DICE = Origin("instruct template", "Waves", "/input_sequence", "{{roll:1d6}}#")

REFUSED: dict[str, Callable[[str], str]] = {
    "words of lore": lambda words: trace("A storm.", LORE) + words,
    "other words of the line": lambda words: trace("She lies.", REASONING) + words,
    "long words of nowhere": lambda words: "It is said that " + words,
    "a macro that changes": lambda words: expanded(trace("4", DICE), "roll", trace("{{roll}}", DICE)) + words,
    "text beside such a macro": lambda words: trace("#", DICE, 12) + words,
    "a script before the words": lambda words: replaced("#", "shout", trace("!", SUFFIX)) + words,
    "a script in the words": lambda words: words[:5] + replaced(words[5:], "calm", words[5:]),
    "a macro around the words": lambda words: expanded(words, "input", "{{input}}"),
    "the words from elsewhere": lambda words: trace(plain(words), LORE),
    "words of nowhere": lambda words: plain(words) + "\n",
    "the words of another line": lambda words: trace(plain(words), origins(plain(words), 4)[0]),
    "the words at another place": lambda words: trace(str(words), Origin("chat", "chat", "/0/mes", f" {words}"), 1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_line_that_another_may_not_be_written_as_has_no_form(case: str) -> None:
    with tracing():
        words, name = origins("Hello there.")
        text = REFUSED[case](trace(words.text, words))
        assert form_of(text, text.index(words.text[:5]), words, name) is None


def test_a_name_that_is_the_words_of_its_line_has_no_form() -> None:
    with tracing():
        words, name = origins("Ann")
        assert form_of(trace("Ann", name) + ": " + trace("Ann", words), 0, words, name) is None


def test_a_script_that_replaces_nothing_has_no_place_in_a_template() -> None:
    """The place of a text in a template with conditions is that of the macro it was made by."""
    template = Origin("context template", "Waves", "/story_string", "{{#if system}}{{system}}\n{{/if}}{{persona}}")
    with tracing():
        text = trace("\n", template, 24) + replaced("Hm.", "sigh", "")
        assert not has_one_branch(template, text)


SEQUENCES = hypothesis.sampled_from(["", "### Q", "\n### Q\n", "{{name}}:", "{{char}} and {{user}}\n", "<s>", "Hi"])
WORDS = hypothesis.sampled_from(
    ["Hi", "Ann", "Ann: Hi", "Aria", ": ", "### Q", "Hi\n", "\nHi", "{{user}} waves.", "So it is.", "a", "Hm.\n\nHm."]
)
LINES = hypothesis.lists(
    hypothesis.tuples(hypothesis.sampled_from(["Ann", "Aria", "Bel"]), WORDS, hypothesis.booleans()),
    min_size=12,
    max_size=24,
)
SCRIPT = {"scriptName": "calm", "placement": [1, 2], "promptOnly": True}
TEMPLATES = hypothesis.fixed_dictionaries(
    {
        **dict.fromkeys(("input_sequence", "input_suffix", "output_sequence", "output_suffix"), SEQUENCES),
        **dict.fromkeys(("first_input_sequence", "last_input_sequence"), SEQUENCES),
        **dict.fromkeys(("first_output_sequence", "last_output_sequence"), SEQUENCES),
        "names_behavior": hypothesis.sampled_from(["none", "force", "always"]),
        "wrap": hypothesis.booleans(),
    }
)
SCRIPTS = hypothesis.lists(
    hypothesis.tuples(
        hypothesis.sampled_from(
            [
                *(("/Hi/", "Ho"), ("/^/", "Ann: "), ("/(.*)/s", "$1!"), ("/: /", ""), ("/x*/g", "")),
                *(("/[aeiou]/g", "{{char}}-$0"), ("/Ann|Ho/g", "<$0>"), ("/Aria/", "{{random::a::b}}"), ("/i/", "😀")),
            ]
        ),
        hypothesis.sampled_from([None, None, None, 3]),
    ),
    max_size=3,
)


def builder(template: dict[str, Any], scripts: list[tuple[tuple[str, str], int | None]], text: bool) -> st.Builder:
    more: dict[str, Any] = {}
    if text:
        more = {"dialect": "text", "instruct": st.InstructTemplate(name="Waves", **template)}
        more["context_template"] = st.ContextTemplate()
    found = [{**SCRIPT, "findRegex": find, "replaceString": new, "maxDepth": depth} for (find, new), depth in scripts]
    more["regex_scripts"] = st.RegexScripts.from_settings({"regex": found})
    return st.Builder(
        character=Character(name="Aria", description="Keeps the lamp."),
        user=User(name="Ann"),
        preset=st.Preset.from_json({"names_behavior": 2}),
        context_length=100_000,
        seed=1,
        **more,
    )


def chat(lines: list[tuple[str, str, bool]]) -> list[st.ChatMessage]:
    return [st.ChatMessage(name=name, mes=said, is_user=is_user) for name, said, is_user in lines]


def spans(found: SourceMap) -> list[object]:
    return [text.to_dict() for text in found.messages]


@given(LINES, TEMPLATES, SCRIPTS, hypothesis.booleans(), WORDS)
@settings(max_examples=24)
def test_maps_are_those_of_lines_that_are_built_one_by_one(
    lines: list[tuple[str, str, bool]],
    template: dict[str, Any],
    scripts: list[tuple[tuple[str, str], int | None]],
    text: bool,
    message: str,
) -> None:
    history = chat(lines)
    known = builder(template, scripts, text)
    for count in (len(history) - 2, len(history)):
        found = known.build(history=history[:count], message=message).source_map()
        assert found.exact
        with one_by_one():
            fresh = builder(template, scripts, text).build(history=history[:count], message=message).source_map()
            assert spans(found) == spans(fresh)


def group(script: tuple[str, str] | None, template: str) -> risu_ai.Builder:
    scripts = [] if script is None else [{"type": "editprocess", "in": script[0], "out": script[1], "comment": "calm"}]
    members = [risu_ai.RisuCharacter(name=name, id=name, description="{{char}} sails.") for name in ("Aria", "Bel")]
    owner = {"type": "group", "name": "Two", "chaId": "g", "characters": ["Aria", "Bel"], "characterTalks": [1, 1]}
    return risu_ai.Builder(
        character=risu_ai.RisuCharacter.from_json(owner),
        members=members,
        speaker="Aria",
        user=User(name="Ann"),
        preset=risu_ai.Preset.from_json({"maxContext": 100_000, "groupTemplate": template, "regex": scripts}),
    )


@given(
    LINES,
    hypothesis.sampled_from([None, ("Hi", "Ho"), ("^", "Ann: "), ("(.*)", "$1!"), (": ", "")]),
    hypothesis.sampled_from(["", "{{char}} says: {{slot}}", "{{slot}} ({{random::a::b}})", "Hi {{slot}}"]),
    WORDS,
)
@settings(max_examples=12)
def test_maps_of_a_group_are_those_of_messages_that_are_built_one_by_one(
    lines: list[tuple[str, str, bool]], script: tuple[str, str] | None, template: str, message: str
) -> None:
    said = [
        {"role": "user", "data": words} if is_user else {"role": "char", "data": words, "saying": name}
        for name, words, is_user in lines
    ]
    known = group(script, template)
    for count in (len(said) - 2, len(said)):
        given: dict[str, Any] = {"history": {"message": said[:count], "fmIndex": -1}, "message": message, "seed": 1}
        found = known.build(**given).source_map()
        assert found.exact
        assert not list(problems(found))
        with one_by_one():
            assert spans(found) == spans(group(script, template).build(**given).source_map())


@pytest.mark.parametrize(("surface", "every", "least"), [(*TEXT, 8, 40), (*RISU_AI, 1, 4)])
def test_recorded_builds_have_the_maps_of_lines_that_are_built_one_by_one(
    surface: str, every: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_line_forms, "FEW_LINES", 2)
    alike = 0
    write = LineForm.spans

    def count(self: LineForm, at: int, words: TextSource, name: TextSource | None, said: str) -> list[OpenSpan]:
        nonlocal alike
        alike += 1
        return write(self, at, words, name, said)

    monkeypatch.setattr(LineForm, "spans", count)
    for case, plan in plans(surface, every):
        found = spans(plan.source_map())
        _forget(plan)
        with one_by_one():
            assert spans(plan.source_map()) == found, case
    assert alike > least


def _forget(plan: Plan) -> None:
    """Let the next map of a plan know nothing."""
    again: Any = plan.again
    again.func.__self__.services.known_texts = KnownTexts()


TALK = chat([("Ann" if line % 2 else "Aria", f"Line {line}.", line % 2 == 1) for line in range(60)])


def test_lines_of_another_template_with_the_same_words_are_its_own() -> None:
    """Lines are cached by the words around them, so two builders share them."""
    services = Services()
    maps: list[SourceMap] = []
    for name in ("Waves", "Tides", "Waves"):
        made = st.Builder(
            character=Character(name="Aria"),
            user=User(name="Ann"),
            dialect="text",
            instruct=st.InstructTemplate(name=name, input_sequence="### Q", output_sequence="### A"),
            context_template=st.ContextTemplate(),
            context_length=100_000,
            services=services,
        )
        maps.append(made.build(history=TALK, message="And?").source_map())
    for found, name in zip(maps, ("Waves", "Tides", "Waves"), strict=True):  # read after all were made
        assert not list(problems(found))
        assert {place.spans[0].sources[0].name for place in found.where("### Q")} == {name}


@pytest.mark.parametrize("special", ["### Q", "### {{char}}", "### Q\n"])
def test_sequences_that_may_write_the_same_are_found_in_a_build(special: str) -> None:
    made = builder({"input_sequence": "### Q", "last_input_sequence": special}, [], text=True)
    for count in (40, 42, 60):
        found = made.build(history=TALK[:count], message="And?").source_map()
        pointers = [place.spans[0].sources[0].pointer for place in found.where("### ")]
        assert pointers.count("/last_input_sequence") == 1
        with one_by_one():
            fresh = builder({"input_sequence": "### Q", "last_input_sequence": special}, [], text=True)
            assert spans(fresh.build(history=TALK[:count], message="And?").source_map()) == spans(found)


def test_injections_with_filters_are_told_apart() -> None:
    made = builder({}, [], text=False)
    registry = InjectionRegistry()
    turn = 0
    registry.register("one", "{{char}} is cold.", "in_chat", filter=lambda _: turn == 0)
    registry.register("two", "Aria is cold.", "in_chat", filter=lambda _: turn == 1)
    for turn, name in enumerate(("one", "two")):  # noqa: B007  # the filters read it
        found = made.build(history=TALK, message="And?", injections=registry).source_map()
        (place,) = found.where("is cold.")
        assert [source.name for span in place.spans for source in span.sources][-1] == name
