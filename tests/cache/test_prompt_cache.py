"""What a cache is predicted to hold, and who is said to have broken it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.cache import (
    PROFILES,
    Origin,
    PromptCache,
    Span,
    choose_breakpoints,
    find_break,
    plan_spans,
    predict,
    request_spans,
    volatile_macros,
    with_breakpoints,
)
from tavernkit.cache._breaks import common_tokens
from tavernkit.errors import ConfigError
from tavernkit.models import Request, Usage
from tavernkit.prompt import Block, Message, Plan

HEAD = Span("You are Aria.", 1000, "system", Origin("preset prompt", "main", "Main Prompt"))
TAIL = Span("Stay in character.", 10, "system", Origin("preset prompt", "jailbreak", "Post-History Instructions"))


def message(number: int, tokens: int = 100, text: str = "") -> Span:
    origin = Origin("history", str(number), f"message #{number}", group="history")
    return Span(text or f"{number} text", tokens, "user" if number % 2 else "assistant", origin)


def note(depth: int = 4, text: str = "Short replies.") -> Span:
    return Span(text, 20, "system", Origin("author's note", "2_floating_prompt", "Author's Note", depth=depth))


def lore(*names: str, depth: int | None = None) -> Span:
    origin = Origin("lore", "worldInfoBefore", "World Info", entries=dict.fromkeys(names, "key 'lamp'"), depth=depth)
    return Span(" ".join(names), 50, "system", origin)


def test_a_chat_that_goes_on_keeps_its_prefix() -> None:
    before, after = [HEAD, message(1), message(2)], [HEAD, message(1), message(2), message(3)]
    assert find_break(before, after) is None
    assert common_tokens(before, after) == 1200


def test_what_stands_behind_the_chat_is_all_that_a_new_message_costs() -> None:
    found = find_break([HEAD, message(1), TAIL], [HEAD, message(1), message(2), message(3), TAIL])
    assert found is not None
    assert (found.cause, found.avoidable, found.lost_tokens) == ("new message", False, 10)


def test_a_note_at_a_depth_moves_with_every_message() -> None:
    before = [HEAD, message(1), note(), message(2), message(3)]
    after = [HEAD, message(1), message(2), message(3), note(), message(4), message(5)]
    found = find_break(before, after)
    assert found is not None
    assert (found.cause, found.origin.title, found.lost_tokens) == ("depth", "Author's Note", 220)
    assert "depth 4" in found.reason


def test_the_oldest_message_that_makes_room_is_named() -> None:
    found = find_break([HEAD, message(1), message(2), message(3)], [HEAD, message(2), message(3), message(4)])
    assert found is not None
    assert (found.cause, found.position, found.lost_tokens) == ("trimmed", 2, 200)
    assert "message #1" in found.reason


def test_lore_that_comes_and_goes_is_named_with_its_key() -> None:
    came = find_break([HEAD, message(1)], [HEAD, lore("The lamp"), message(1), message(2)])
    changed = find_break([HEAD, lore("The lamp", "Hern"), message(1)], [HEAD, lore("The lamp"), message(1)])
    went = find_break([HEAD, lore("Hern", depth=4), message(1)], [HEAD, message(1), message(2)])
    assert came is not None
    assert changed is not None
    assert went is not None
    assert [each.cause for each in (came, changed, went)] == ["lore", "lore", "lore"]
    assert came.reason == "new lore: The lamp (key 'lamp')"
    assert changed.reason == "lore dropped out: Hern (key 'lamp') (World Info)"
    assert went.reason == "lore dropped out: Hern (key 'lamp')"


@pytest.mark.parametrize(
    ("text", "cause"), [("{{time}}", "time"), ("{{random::a::b}}", "random"), ("{{getvar::mood}}", "variable")]
)
def test_a_changed_text_is_blamed_on_its_macro(text: str, cause: str) -> None:
    origin = Origin("preset prompt", "main", "Main Prompt", macros=volatile_macros(text))
    found = find_break([Span("a", 5, "system", origin), message(1)], [Span("b", 5, "system", origin), message(1)])
    assert found is not None
    assert found.cause == cause
    assert "Main Prompt" in found.reason


def test_edited_messages_notes_examples_and_tools_have_causes_of_their_own() -> None:
    example = Span("Hm.", 9, "system", Origin("card field", "mes_example", "example dialogue 1", group="examples"))
    tools = [Span(text, 9, "tools", Origin("tools", "tools", "tool definitions")) for text in ("ab", "ba")]
    pairs = [
        ([HEAD, message(1)], [HEAD, message(1, text="another")], "edited"),
        ([HEAD, note(), message(1)], [HEAD, message(1), message(2)], "note"),
        ([HEAD, example, message(1)], [HEAD, message(1), message(2)], "examples"),
        ([tools[0], HEAD], [tools[1], HEAD], "tools"),
        ([HEAD, message(1)], [HEAD, TAIL, message(1)], "came"),
        ([HEAD, TAIL, message(1)], [HEAD, message(1)], "went"),
    ]
    for before, after, cause in pairs:
        found = find_break(before, after)
        assert found is not None
        assert found.cause == cause


def test_volatile_macros_are_found_whatever_their_case_and_flags() -> None:
    assert dict(volatile_macros("{{ Random::a::b }} {{char}} {{.mood}} {{time_UTC+2}}")) == {
        "random": "random",
        "getvar": "variable",
        "time": "time",
    }
    assert not volatile_macros("{{user}} and {{pick::a::b}}, random time")


def test_openai_caches_units_of_128_tokens_from_1024_on() -> None:
    cache = PromptCache("openai")
    assert cache.send([HEAD, message(1)]).cached_tokens == 0
    assert cache.send([HEAD, message(1), message(2)]).cached_tokens == 1024
    turn = cache.send([HEAD, message(1), message(2), message(3)])
    assert (turn.common_tokens, turn.cached_tokens, turn.written_tokens) == (1200, 1152, 148)
    assert turn.cost == 1152 * 0.25 + 148


def test_an_earlier_request_than_the_last_may_still_be_cached_but_a_local_slot_has_only_one() -> None:
    requests = [[HEAD, message(1)], [message(9), HEAD], [HEAD, message(1), message(2)]]
    assert predict(requests, "vllm").turns[2].cached_tokens == 1088
    assert predict(requests, "llama_cpp").turns[2].cached_tokens == 0


def test_a_pause_longer_than_the_lifetime_empties_the_cache() -> None:
    for profile in ("openai", "anthropic"):
        cache = PromptCache(profile)
        cache.send([HEAD, message(1)])
        assert cache.send([HEAD, message(1), message(2)], idle_seconds=299).cached_tokens > 0
        assert cache.send([HEAD, message(1), message(2), message(3)], idle_seconds=301).cached_tokens == 0


def test_anthropic_reads_up_to_the_last_mark_it_wrote_and_charges_for_writing() -> None:
    cache = PromptCache("anthropic")
    first = cache.send([HEAD, message(1), TAIL])
    assert (first.cached_tokens, first.written_tokens) == (0, 1100)
    second = cache.send([HEAD, message(1), message(2), message(3), TAIL])
    assert (second.cached_tokens, second.written_tokens) == (1100, 200)
    assert second.cost == pytest.approx(1100 * 0.1 + 200 * 1.25 + 10)


def test_anthropic_does_not_find_an_entry_beyond_its_look_back_window() -> None:
    marked = [Span("head", 2000, "system", marked=True)]
    blocks = [message(number, 1) for number in range(1, 31)]
    cache = PromptCache("anthropic")
    cache.send(marked)
    far = [Span("head", 2000, "system"), *blocks[:-1], Span("end", 1, marked=True)]
    assert cache.send(far).cached_tokens == 0
    cache = PromptCache("anthropic")
    cache.send(marked)
    near = [Span("head", 2000, "system"), *blocks[:18], Span("end", 1, marked=True)]
    assert cache.send(near).cached_tokens == 2000


def test_marks_stand_at_the_ends_of_stable_spans_and_one_window_apart() -> None:
    chat = [message(number) for number in range(1, 61)]
    places = choose_breakpoints([HEAD, Span("lore", 100), *chat, note(depth=0), TAIL], "anthropic")
    assert len(places) == 4
    assert places[-1] == 61  # the last message
    assert places[0] == 1  # the end of the head
    assert all(after - before < 20 for before, after in pairwise(places[1:]))
    assert choose_breakpoints([HEAD, *chat], "openai") == ()


def test_prefixes_below_the_minimum_get_no_mark() -> None:
    assert choose_breakpoints([Span("short", 900), message(1, 50), message(2, 50)], "anthropic") == ()


def test_marks_stop_before_what_moves_inside_the_chat() -> None:
    spans = [HEAD, message(1), message(2), note(), message(3)]
    assert choose_breakpoints(spans, "anthropic")[-1] == 2
    moody = Span("Mood: calm.", 5, "system", Origin("preset prompt", "mood", "Mood", macros={"random": "random"}))
    assert choose_breakpoints([HEAD, message(1), TAIL, moody], "anthropic")[-1] == 1
    assert choose_breakpoints([HEAD, moody, message(1)], "anthropic") == ()


def test_a_plan_with_marks_gives_a_request_with_cache_control() -> None:
    source = {"kind": "history", "id": 1, "title": "message #1"}
    blocks = [
        Block("system", "head", metadata={"tokens": 2000}),
        Block("user", "Hi", metadata={"tokens": 5, "source": source}),
        Block("system", "Be brief.", metadata={"tokens": 5}),
    ]
    marked = with_breakpoints(Plan(blocks=blocks), "anthropic")
    body = marked.request("anthropic", model="claude-x", options={"max_tokens": 9}).body()
    assert body["system"] == [{"type": "text", "text": "head", "cache_control": {"type": "ephemeral"}}]
    assert [span.marked for span in plan_spans(marked)] == [True, True, False]
    assert marked.blocks[2].role == "user"  # else Anthropic would move it to the top
    assert with_breakpoints(Plan(blocks=blocks), "openai").blocks == tuple(blocks)
    assert with_breakpoints(Plan(blocks=blocks), "anthropic", ttl="1h").blocks[1].message_metadata == {
        "cache_control": {"type": "ephemeral", "ttl": "1h"}
    }


def test_requests_without_a_plan_have_spans_too() -> None:
    chat = Request(messages=[Message("system", "head"), {"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    assert [(span.role, span.text) for span in request_spans(chat, len)] == [("system", "head"), ("user", "Hi")]
    tools = Request(prompt="Once", tools=[{"type": "function", "function": {"name": "f"}}])
    assert [span.origin.kind for span in request_spans(tools)] == ["tools", "text"]


def test_a_report_adds_up_and_says_what_to_do() -> None:
    requests = [[HEAD, *(message(n) for n in range(first, first + 5))] for first in range(1, 11)]
    report = predict(requests, "openai")
    cause, times, lost = report.causes[0]
    assert (cause.cause, times, lost) == ("trimmed", 9, 9 * 400)
    assert report.to_dict()["causes"]
    assert 'strategy="cache"' in report.advice()[0]
    assert report.share == 0  # the head alone is below the minimum
    assert report.common_share == pytest.approx(9 * 1000 / report.tokens)
    assert predict([], "openai").share == 0


def test_reports_of_the_provider_stand_beside_the_prediction() -> None:
    cache = PromptCache("openai")
    with pytest.raises(ConfigError, match=r"send\(\)"):
        cache.receive(Usage())
    cache.send([HEAD, message(1)])
    assert cache.receive(Usage(cached_tokens=5)).reported_tokens is None  # an estimate of our own
    assert cache.report.reported_share is None
    assert cache.receive(Usage(cached_tokens=550, reported=True)).reported_tokens == 550
    assert cache.report.reported_share == 0.5
    assert cache.report.to_dict()["reported_share"] == 0.5


span_lists = st.lists(
    st.builds(
        Span,
        text=st.text(max_size=6),
        tokens=st.integers(0, 3000),
        role=st.sampled_from(["system", "user", "assistant"]),
    ),
    max_size=12,
)


@given(st.lists(span_lists, min_size=1, max_size=5), st.sampled_from(sorted(PROFILES)))
def test_a_prediction_never_exceeds_the_prompt(requests: list[list[Span]], profile: str) -> None:
    report = predict(requests, profile)
    for turn in report.turns:
        assert 0 <= turn.cached_tokens <= turn.tokens
        assert 0 <= turn.written_tokens <= turn.tokens - turn.cached_tokens
        assert 0 <= turn.common_tokens <= turn.tokens
        assert turn.broken is None or turn.broken.lost_tokens <= turn.tokens
    assert report.turns[0].cached_tokens == 0
