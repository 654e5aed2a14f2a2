"""A next turn reads, writes and counts what is new, however long the chat is, and builds what a new builder builds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.prompt._context import FixedClock
from tavernkit.risu_ai import Builder, RisuChat, RisuMessage, RisuModule, RisuPlan
from tavernkit.risu_ai._chat.chat_cache import KnownMessages
from tavernkit.risu_ai._chat.chat_list import HistoryWriter
from tavernkit.risu_ai._regex_scripts.results import ResultKey, ScriptedTexts, ScriptResults
from tavernkit.risu_ai._regex_scripts.runner import RegexScriptRunner
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import STANDARD, inputs, preset

SCRIPTS = [
    {"comment": "stars", "in": r"\*([^*\n]+)\*", "out": "<i>$1</i>", "type": "editprocess"},
    {"comment": "input", "in": "boat", "out": "ship", "type": "editinput"},
]
DICE = [{"comment": "dice", "in": "roll", "out": "{{roll::6}}", "type": "editprocess"}]
THOUGHTS = [{"comment": "thoughts", "in": "hm", "out": "<Thoughts>hm</Thoughts>", "type": "editprocess"}]
LISTS: list[list[dict[str, str]]] = [[], SCRIPTS, [*SCRIPTS, *DICE], [*SCRIPTS, *THOUGHTS]]

TEXTS = [
    "The lantern burns.", "A *quiet* boat.", "roll", "hm, so.", "", "  ", "Long words " * 12,
    "{{setvar::n::5}}So.", "{{addvar::n::1}}{{getvar::n}}", "{{random::a::b::c}}", "{{lastmessage}}",
    "{{messagecount}}", "<b>bold</b>", "<user> waits", "{{roll::20}}", "<Thoughts>hm</Thoughts>yes", "{{inlay::x}}",
]  # fmt: skip


def message(text: str, number: int, **raw: Any) -> RisuMessage:
    return RisuMessage(role="user" if number % 2 else "char", data=text, raw={"chatId": f"m{number}", **raw})


def module(scripts: list[dict[str, str]]) -> RisuModule:
    return RisuModule.from_json({"id": "m", "name": "M", "regex": scripts})


def long_chat(count: int) -> RisuChat:
    return RisuChat(
        id="c", messages=tuple(message(f"The *lantern* {number} burns.", number) for number in range(count))
    )


def longer(plan: RisuPlan) -> RisuChat:
    said = message(f"Reply {len(plan.chat.messages)}.", len(plan.chat.messages))
    return RisuChat(id="c", messages=(*plan.chat.messages, said))


@pytest.mark.parametrize("scripts", [[], SCRIPTS])
def test_the_5000th_message_costs_what_the_50th_does(
    scripts: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    read: list[int] = []
    run: list[str] = []
    write, extend, scripted = HistoryWriter.write, KnownMessages.extended, RegexScriptRunner.run
    monkeypatch.setattr(
        HistoryWriter, "write", lambda self, line, at, *rest: (written.append(at), write(self, line, at, *rest))[1]
    )
    monkeypatch.setattr(
        KnownMessages,
        "extended",
        lambda self, messages: (read.append(len(messages) - len(self.messages)), extend(self, messages))[1],
    )
    monkeypatch.setattr(
        RegexScriptRunner,
        "run",
        lambda self, text, *rest, **named: (run.append(text), scripted(self, text, *rest, **named))[1],
    )
    counts: dict[int, tuple[int, int, int]] = {}
    for size in (50, 5000):
        builder = Builder(**inputs(modules=[module(scripts)], preset=preset(STANDARD, max_context=16_000)))
        plan = builder.build(history=long_chat(size), message="Go on.")
        for _ in range(2):
            for each in (written, read, run):
                each.clear()
            plan = builder.build(history=longer(plan), message="And then?")
            counts[size] = len(written), sum(read), len(run)
        assert plan.messages
        assert plan.trim_report is not None
        assert (len(plan.trim_report.evictions) > 3000) is (size == 5000)
    assert counts[5000] == counts[50]
    assert counts[50][0] == 2


@pytest.mark.parametrize("pipeline", ["standard", "own"])
def test_what_was_dropped_can_be_read(pipeline: str) -> None:
    builder = Builder(**inputs(preset=preset(STANDARD, max_context=400)))
    if pipeline == "own":  # which is not trusted with shared messages
        builder = Builder(
            pipeline=builder.pipeline.without("hooks"), **inputs(preset=preset(STANDARD, max_context=400))
        )
    plan = builder.build(history=long_chat(200))
    assert plan.trim_report is not None
    evictions = list(plan.trim_report.evictions)
    assert [each.block_id for each in evictions[2:4]] == ["m0", "m1"]
    assert plan.trim_report.initial_tokens - plan.trim_report.final_tokens == sum(
        each.token_count for each in evictions
    )
    (reported,) = [each for each in plan.omissions if each.kind == "history"]
    assert (reported.name or "").startswith(f"{len(evictions)} messages (")
    assert reported.tokens == sum(each.token_count for each in evictions)


def shown(plan: RisuPlan) -> tuple[object, ...]:
    report = plan.trim_report
    return (
        [(block.id, block.role, block.content, block.metadata.get("tokens")) for block in plan.blocks],
        [block.source for block in plan.blocks],
        [(each.kind, each.id, each.name, each.reason, each.tokens) for each in plan.omissions],
        [str(each) for each in plan.warnings],
        plan.chat.messages,
        plan.last_memory,
        report and (report.initial_tokens, report.final_tokens, list(report.evictions)),
    )


class Forgetful(Builder):
    """Forgets the messages of the chat before every build; results of scripts stay, as in RisuAI."""

    def build(self, **given: Any) -> RisuPlan:
        self.services.chats, self.services.histories = type(self.services.chats)(), type(self.services.histories)()
        return super().build(**given)


turn = st.tuples(
    st.sampled_from(["say", "say", "edit", "delete", "disable", "cut", "again"]),
    st.sampled_from(TEXTS),
    st.sampled_from(TEXTS),
    st.integers(0, 30),
)


@settings(max_examples=25, deadline=None)
@given(
    scripts=st.sampled_from(LISTS),
    start=st.lists(st.sampled_from(TEXTS), max_size=8),
    turns=st.lists(turn, min_size=1, max_size=6),
    room=st.sampled_from([260, 400, 8000]),
)
def test_a_builder_that_remembers_builds_the_same(
    scripts: list[dict[str, str]], start: list[str], turns: list[tuple[str, str, str, int]], room: int
) -> None:
    results: list[list[object]] = []
    for kind in (Builder, Forgetful):
        store = InMemoryVariablesStore()
        builder = kind(
            **inputs(
                modules=[module(scripts)], preset=preset(STANDARD, max_context=room), variables=store, random=None
            ),
            on_overflow="return",
            clock=FixedClock(datetime(2026, 1, 1, tzinfo=UTC)),
        )
        messages = tuple(message(text, number) for number, text in enumerate(start))
        made: list[object] = []
        for number, (what, said, reply, place) in enumerate(turns):
            at = place % len(messages) if messages else 0
            if what == "edit" and messages:
                messages = (*messages[:at], message(reply, at), *messages[at + 1 :])
            elif what == "delete":
                messages = messages[:at]
            elif what in ("disable", "cut") and messages:
                raw = {"disabled": True if what == "disable" else "allBefore"}
                messages = (*messages[:at], message(messages[at].data, at, **raw), *messages[at + 1 :])
            plan = builder.build(history=RisuChat(id="c", messages=messages), message=said, seed=number)
            made.append(shown(plan))
            plan.variables.apply(store)
            if what != "again":
                messages = (*plan.chat.messages, message(reply, 100 + number))
        results.append(made)
    assert results[0] == results[1]


GREETING_KEY: ResultKey = ("g", "m", None, -1, "", False)


class OneByOne(ScriptResults):
    """Puts every result of a chat."""

    def put_texts(self, texts: ScriptedTexts, count: int) -> None:
        for place in range(count):
            self.put(texts.keys[place], texts.made[place])


@given(
    size=st.integers(0, 6),
    turns=st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(-1, 12), max_size=3), st.booleans(), st.integers(0, 3)),
        max_size=12,
    ),
)
def test_results_of_a_whole_chat_are_remembered_as_if_each_was_put(
    size: int, turns: list[tuple[int, list[int], bool, int]]
) -> None:
    caches = ScriptResults(size), OneByOne(size)
    places = range(13)
    chats = [
        ScriptedTexts(((f"{kind}{place}", "m", None, place, "user", False) for place in places), map(str, places))
        for kind in "ab"
    ]
    for count, singles, other, forget in turns:
        texts = chats[other]
        for cache in caches:
            if forget == 3:
                cache.clear()
            cache.put_texts(texts, count)
            for place in singles:
                cache.put(texts.keys[place] if place >= 0 else GREETING_KEY, "x" if place < 0 else str(place))
        for key in (*chats[0].keys, *chats[1].keys, GREETING_KEY):
            assert caches[0].get(key) == caches[1].get(key)
