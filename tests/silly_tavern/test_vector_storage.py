from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.silly_tavern import Settings, VectorHit, VectorResults, WorldBook
from tavernkit.silly_tavern._chat.vector_storage import Cutting
from tests.silly_tavern.scene import build, contents

LINES = [
    {"name": "Lyra" if index % 2 else "Mira", "is_user": not index % 2, "mes": f"Line {index}."} for index in range(9)
]


def settings(**vectors: Any) -> Settings:
    extra = {key: vectors.pop(key) for key in ("attachments", "disabled_attachments") if key in vectors}
    return Settings.from_json({"extension_settings": {"vectors": vectors, **extra}})


def found(**hits: list[str]) -> VectorResults:
    return VectorResults({key: [VectorHit(text) for text in texts] for key, texts in hits.items()})


def test_found_lines_move_into_the_memories_worst_first():
    plan = build(history=LINES, settings=settings(enabled_chats=True), vectors=found(chat=["Line 1.", "Line 3."]))
    texts = contents(plan)
    assert "Past events:\nLyra: Line 3.\n\nLyra: Line 1." in texts
    assert "Line 1." not in texts


def test_the_line_after_a_removed_one_stays_in_the_chat_too():
    plan = build(history=LINES, settings=settings(enabled_chats=True), vectors=found(chat=["Line 1.", "Line 2."]))
    texts = contents(plan)
    assert "Line 1." not in texts
    assert "Line 2." in texts
    assert any("Mira: Line 2." in text for text in texts)


@pytest.mark.parametrize(("protect", "moved"), [(5, True), (0, False), (8, False), (20, False)])
def test_protected_lines_stay(protect: int, moved: bool):
    chosen = settings(enabled_chats=True, protect=protect)
    plan = build(history=LINES, settings=chosen, vectors=found(chat=["Line 1."]))
    assert any("Past events" in text for text in contents(plan)) is moved


@pytest.mark.parametrize("kind", ["enabled_chats", "enabled_files", "enabled_world_info"])
def test_macros_of_the_newest_lines_run_once_more_only_if_something_is_asked(kind: str):
    line = {"name": "Mira", "is_user": True, "mes": "{{incvar::n}}"}
    plan = build(history=[*LINES[:2], line], settings=settings(**{kind: True}), vectors=VectorResults())
    assert plan.vector_calls == ()
    assert contents(plan)[-1] == "1"


def test_a_plan_says_what_it_would_ask_for_and_that_nothing_was_given():
    plan = build(history=LINES, settings=settings(enabled_chats=True), message="Go on.")
    call = plan.vector_calls[0]
    assert (call.call, call.collections, call.search_text, call.top_k) == ("query", ("chat",), "Go on.\nLine 8.", 3)
    assert any(each.kind == "vectors" for each in plan.omissions)


def test_nothing_is_asked_in_a_quiet_generation_or_when_the_extension_is_off():
    assert build(settings=settings(enabled_chats=True), generation_type="quiet", quiet_prompt="?").vector_calls == ()
    off = Settings.from_json(
        {"extension_settings": {"vectors": {"enabled_chats": True}, "disabledExtensions": ["vectors"]}}
    )
    assert build(history=LINES, settings=off).vector_calls == ()


FILE = {"url": "/user/files/a.txt", "name": "a.txt", "size": 10}


def test_the_data_bank_is_cut_indexed_and_asked():
    results = VectorResults({FILE["url"]: [VectorHit("b", 2), VectorHit("a", 1), VectorHit("a", 1)]})
    chosen = settings(enabled_files=True, attachments=[{**FILE, "size": 99_999}], chunk_size_db=7)
    plan = build(settings=chosen, attachments={FILE["url"]: "one two three"}, vectors=results)
    assert "Related information:\na\nb\n\n" in contents(plan)
    assert [item.text for call in plan.vector_calls if call.call == "insert" for item in call.items] == [
        "one two",
        "three",
    ]


def test_switched_off_files_of_the_data_bank_are_not_asked():
    chosen = settings(enabled_files=True, attachments=[FILE], disabled_attachments=[FILE["url"]])
    assert build(settings=chosen, attachments={FILE["url"]: "x"}).vector_calls == ()


def test_a_large_file_of_a_line_is_replaced_by_what_was_found():
    line = {"name": "Mira", "is_user": True, "mes": "Read.", "extra": {"files": [FILE]}}
    chosen = settings(enabled_files=True, size_threshold=1)
    results = VectorResults({FILE["url"]: [VectorHit("chunk")]}, frozenset({FILE["url"]}))
    inputs: dict[str, Any] = {"history": [line], "settings": chosen, "vectors": results}
    assert contents(build(**inputs, attachments={FILE["url"]: "x" * 1024}))[-1] == "chunk\n\nRead."
    assert contents(build(**inputs, attachments={FILE["url"]: "small"}))[-1] == "small\n\nRead."


def test_lore_is_indexed_in_the_order_it_is_looked_at():
    def book(name: str, *orders: int) -> WorldBook:
        fields = {"key": [], "vectorized": True, "position": 0}
        entries = {
            str(uid): {"uid": uid, "content": f"{name}{uid}", "order": order, **fields}
            for uid, order in enumerate(orders)
        }
        return WorldBook.from_json({"entries": entries}, name=name)

    plan = build(settings=settings(enabled_world_info=True), books=[book("a", 10, 30), book("b", 40, 5)])
    inserts = [call for call in plan.vector_calls if call.call == "insert"]
    assert [[item.text for item in call.items] for call in inserts] == [["b0", "b1"], ["a1", "a0"]]
    assert plan.vector_calls[-1].collections == ("world:b", "world:a")


def test_found_lore_is_forced():
    entry = {"uid": 1, "key": ["never said"], "content": "The well is dry.", "vectorized": True, "position": 0}
    book = WorldBook.from_json({"entries": {"1": entry}}, name="b")
    results = VectorResults({"world:b": [VectorHit("The well is dry.")]})
    texts = contents(build(settings=settings(enabled_world_info=True), books=[book], vectors=results))
    assert "The well is dry." in texts
    assert "The well is dry." not in contents(build(settings=settings(), books=[book], vectors=results))


@given(st.text(alphabet="ab .\n", max_size=200), st.integers(min_value=1, max_value=40))
def test_chunks_are_no_larger_than_asked_and_lose_nothing_but_blanks(text: str, size: int):
    chunks = Cutting(size).chunks(text)
    assert all(len(chunk) <= size for chunk in chunks)
    assert "".join(chunks).replace(" ", "").replace("\n", "") == text.replace(" ", "").replace("\n", "")


def test_sizes_are_those_of_javascript_where_an_emoji_has_two_characters():
    assert Cutting(5).chunks("\U0001f300 ab \U0001f300 c") == ["\U0001f300 ab", "\U0001f300 c"]
    assert Cutting(4).chunks("\U0001f300 ab \U0001f300 c") == ["\U0001f300", "ab", "\U0001f300 c"]
    assert Cutting(4).chunks("\U0001f300" * 3) == ["\U0001f300" * 2, "\U0001f300"]
    shared = Cutting(12, 50).chunks("\U0001f300\U0001f300 ab \U0001f300c def")
    assert all("\U0001f300" in each for each in shared)
    files = {FILE["url"]: "\U0001f300" * 600}
    results = VectorResults({FILE["url"]: [VectorHit("chunk")]}, frozenset({FILE["url"]}))
    inputs: dict[str, Any] = {"settings": settings(enabled_files=True, size_threshold=1), "vectors": results}
    line = {"name": "Mira", "is_user": True, "mes": "Read.", "extra": {"files": [FILE]}}
    assert contents(build(history=[line], **inputs, attachments=files))[-1] == "chunk\n\nRead."


def test_chunks_share_whole_sentences_with_their_neighbours():
    text = "One is here. Two is here.\n\nThree is. Four is.\n\nFive. Six."
    assert Cutting(28, 0).chunks(text) == ["One is here. Two is here.", "Three is. Four is.", "Five. Six."]
    assert Cutting(56, 50).chunks(text)[1] == "Two is here. Three is. Four is. Five. Six."
    assert Cutting(56, 50).chunks(text)[0] == "One is here. Two is here. Three is."
    assert Cutting(30, 0, delimiter="is", only_delimiter=True).chunks("a is b") == ["a ", " b"]


def test_results_are_read_from_json():
    data = {"results": {"chat": [{"text": "a", "index": 3, "hash": 7}, 3], "x": None}, "saved": ["u"]}
    results = VectorResults.from_json(data)
    assert results.hits["chat"][0] == VectorHit("a", 3, 7)
    assert results.indexed == {"u"}
    assert VectorResults.from_json({"results": 3, "saved": 3}) == VectorResults()


@pytest.mark.parametrize("odd", ["Infinity", None, "text", [], {}, -3, 1e308])
def test_odd_settings_build_all_the_same(odd: object):
    keys = ("protect", "query", "insert", "chunk_size", "chunk_size_db", "overlap_percent_db", "size_threshold_db")
    chosen = settings(enabled_chats=True, enabled_files=True, attachments=[FILE], **dict.fromkeys(keys, odd))
    build(history=LINES, settings=chosen, attachments={FILE["url"]: "one two three"}, vectors=found(chat=["Line 1."]))
