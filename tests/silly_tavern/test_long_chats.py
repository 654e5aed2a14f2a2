"""A next turn reads the lines that are new, however long the chat is, and builds what a new builder builds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.silly_tavern import (
    Builder,
    ChatMessage,
    ChatPlan,
    InstructTemplate,
    RegexScripts,
    Settings,
    TextPlan,
)
from tavernkit.silly_tavern._chat import chat_cache, core_chat
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryConverter
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern._services import Services
from tavernkit.silly_tavern._templates.formatting import InstructFormatter
from tavernkit.silly_tavern._text_completion import history_items
from tavernkit.silly_tavern._token_counting.messages import TextCounter
from tests.silly_tavern.scene import inputs, preset


def line(text: str, number: int, **fields: Any) -> ChatMessage:
    return ChatMessage(name="Lyra" if number % 2 else "Mira", mes=text, is_user=number % 2 == 0, **fields)


def test_the_5000th_message_costs_what_the_50th_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    converted: list[str] = []
    core, convert = core_chat.CoreMessage, HistoryConverter._message  # pyright: ignore[reportPrivateUsage]  # counted
    for module in (core_chat, chat_cache):
        monkeypatch.setattr(
            module, "CoreMessage", lambda line, index, text: (made.append(index), core(line, index, text))[1]
        )
    monkeypatch.setattr(
        HistoryConverter,
        "_message",
        lambda self, entry, *given: (converted.append(entry.text), convert(self, entry, *given))[1],
    )
    counts: dict[int, tuple[int, int]] = {}
    for size in (50, 5000):
        builder = Builder(**inputs(preset=preset(openai_max_context=8000)))
        history = [line(f"The lantern {number} burns.", number, extra={"api": "openai"}) for number in range(size)]
        builder.build(history=history, message="Go on.")
        for number in range(2):
            made.clear()
            converted.clear()
            history.append(line(f"Reply {number}.", 1))
            plan = builder.build(history=history, message="And then?")
            counts[size] = len(made), len(converted)
            assert plan.chat[-2].mes == f"Reply {number}."
    assert counts[5000] == counts[50]
    assert counts[50][0] <= 4


def test_regex_scripts_run_over_new_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []
    message = PromptScripts.message

    def counted(self: PromptScripts, text: str, *, is_user: bool, depth: int) -> str:
        run.append(text)
        return message(self, text, is_user=is_user, depth=depth)

    monkeypatch.setattr(PromptScripts, "message", counted)
    scripts = [
        {"scriptName": "s", "placement": [1, 2], "promptOnly": True, **each}
        for each in ({"findRegex": "/burns/", "replaceString": "{{char}}"}, {"findRegex": "/x/", "maxDepth": 3})
    ]
    builder = Builder(**inputs(regex_scripts=RegexScripts.from_settings({"regex": scripts})))
    history = [line(f"The lantern {number} burns.", number) for number in range(300)]
    builder.build(history=history, message="Go on.")
    run.clear()
    history.append(line("Reply.", 1))
    plan = builder.build(history=history, message="And then?")
    assert len(run) < 12
    assert "The lantern 299 Lyra." in [block.content for block in plan.blocks]


def test_text_completion_writes_only_messages_that_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = history_items.HistoryItem
    monkeypatch.setattr(
        history_items, "HistoryItem", lambda *given, **more: (made.append(given), make(*given, **more))[1]
    )
    counts: dict[int, int] = {}
    for size in (200, 2000):
        history = [line(f"The lantern {number % 100:02} burns.", number) for number in range(size)]
        made.clear()
        plan = Builder(**inputs(dialect="text", context_length=1000, response_length=100, history=history)).build()
        assert isinstance(plan, TextPlan)
        assert plan.trim_report is not None
        counts[size] = len(made)
        assert len(plan.trim_report.evictions) == size - plan.chat_messages_sent
        assert plan.omissions[-1].name == f"{size - plan.chat_messages_sent} messages"
    assert counts[2000] == counts[200] < 100


def test_a_next_turn_of_text_completion_writes_only_messages_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    counted: list[str] = []
    count = TextCounter.text
    monkeypatch.setattr(TextCounter, "text", lambda self, text: (counted.append(text), count(self, text))[1])
    write = InstructFormatter.message
    monkeypatch.setattr(
        InstructFormatter,
        "message",
        lambda self, line, *place, **more: (written.append(line.text), write(self, line, *place, **more))[1],
    )
    builder = Builder(**inputs(dialect="text", instruct=InstructTemplate(), context_length=4000, response_length=100))
    history = [line(f"The lantern {number} burns.", number) for number in range(40)]
    first = builder.build(history=history, message="Go on.")
    written.clear()
    counted.clear()
    second = builder.build(history=[*history, line("Reply.", 1)], message="And then?")
    assert sum(text.count("lantern") == 1 for text in counted) == 1  # the first line is a new object in each build
    assert set(written) == {"The lantern 0 burns.", "Reply.", "And then?"}  # the first and the last are written apart
    old = {block.id: block for block in first.blocks}
    assert sum(old.get(block.id) is block for block in second.blocks) >= 38


EXTRAS: list[dict[str, Any]] = [
    {}, {"api": "openai"}, {"reasoning": "because"}, {"memory": "They met."}, {"memory": 3}, {"type": "narrator"},
    {"file": {"name": "f", "text": "the file"}}, {"append_title": True, "title": "a lamp"},
    {"tool_invocations": [{"id": "1", "name": "look", "parameters": "{}", "result": "dark"}]},
]  # fmt: skip
TEXTS = ["Sit down.", "", "{{setvar::n::1}}So.", "{{incvar::n}}", "{{lastMessage}}", "{{random::a::b}}", "word " * 40]
SUMMARY = {"extension_settings": {"memory": {"position": 0}}, "power_user": {"reasoning": {"add_to_prompts": True}}}

SCRIPTS = [
    {"findRegex": "/o/g", "replaceString": "0"},
    {"findRegex": "/S/", "replaceString": "{{char}} s"},
    {"findRegex": "/w/", "replaceString": "{{incvar::n}}"},
    {"findRegex": "/t/", "replaceString": "{{random::a::b::c}}"},
    {"findRegex": "/word/", "replaceString": "deep", "minDepth": 2},
    {"findRegex": "/e/", "replaceString": "3", "maxDepth": 1},
    {"findRegex": "/(/", "replaceString": "broken"},
    {"findRegex": "/{{user}}/", "replaceString": "you", "substituteRegex": 1},
]

lines = st.tuples(st.sampled_from(TEXTS), st.integers(0, 1), st.sampled_from(EXTRAS), st.booleans())
turns = st.tuples(
    st.sampled_from(["say", "say", "edit", "delete", "again"]),
    st.sampled_from(["normal", "normal", "regenerate", "swipe", "continue"]),
    lines,
    st.integers(0, 30),
)


def made_line(given: tuple[str, int, dict[str, Any], bool]) -> ChatMessage:
    text, number, extra, hidden = given
    return line(text, number, extra=extra, is_system=hidden and number == 1)


def shown(plan: ChatPlan | TextPlan) -> tuple[object, ...]:
    return (
        [(block.id, block.role, block.content, block.metadata.get("tokens")) for block in plan.blocks],
        [block.source for block in plan.blocks],
        [(each.kind, each.id, each.name, each.reason, each.tokens) for each in plan.omissions],
        [str(each) for each in plan.warnings],
        plan.continued_text,
    )


class Forgetful(Builder):
    """Forgets everything before every build."""

    def build(self, **given: Any) -> Any:
        self.services = Services()
        return super().build(**given)


TEMPLATES: list[dict[str, Any]] = [
    {"names_behavior": "always", "output_suffix": "</s>"},
    {"names_behavior": "none", "input_sequence": "<|{{name}}|>", "system_same_as_user": True},
    {"input_sequence": "{{random::a::b::c}}:", "output_sequence": "{{incvar::n}} {{char}}:", "wrap": False},
    {"input_sequence": "{{user}}", "macro": False, "last_input_sequence": "LAST", "first_output_sequence": "FIRST"},
    {"enabled": False},
]


@settings(max_examples=40, deadline=None)
@given(
    start=st.lists(lines, max_size=6),
    played=st.lists(turns, min_size=1, max_size=6),
    room=st.sampled_from([700, 8000]),
    tools=st.booleans(),
    chosen=st.lists(st.sampled_from(SCRIPTS), max_size=3),
    template=st.sampled_from([None, None, *TEMPLATES]),
)
def test_a_builder_that_remembers_builds_the_same(
    start: list[Any],
    played: list[tuple[str, Any, Any, int]],
    room: int,
    tools: bool,
    chosen: list[dict[str, Any]],
    template: dict[str, Any] | None,
) -> None:
    results: list[list[object]] = []
    scripts = [{"scriptName": "s", "placement": [1, 2], "promptOnly": True, **each} for each in chosen]
    text: dict[str, Any] = {}
    if template is not None:
        instruct = InstructTemplate.from_json({"enabled": True, **template})
        text = {"dialect": "text", "instruct": instruct, "context_length": room, "response_length": 100}
    for kind in (Builder, Forgetful):
        builder = kind(
            **inputs(
                preset=preset(openai_max_context=room, openai_max_tokens=100, function_calling=tools),
                settings=Settings.from_json(SUMMARY),
                on_overflow="return",
                regex_scripts=RegexScripts.from_settings({"regex": scripts}),
                seed=1,
                **text,
            )
        )
        history = [made_line(each) for each in start]
        made: list[object] = []
        for what, generation, new, place in played:
            at = place % len(history) if history else 0
            if what == "edit" and history:
                history[at] = made_line(new)
            elif what == "delete":
                del history[at:]
            plan = builder.build(history=history, message="Who is there?", generation_type=generation)
            made.append(shown(plan))
            if what != "again":
                history = [*plan.chat, made_line(new)]
        results.append(made)
    assert results[0] == results[1]
