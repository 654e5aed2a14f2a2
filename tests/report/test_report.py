"""The report: sources, lore, the map and the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit import silly_tavern
from tavernkit.cache import PROFILES, CacheReport
from tavernkit.cards import Character
from tavernkit.prompt import Block, Plan
from tavernkit.prompt._source_spans import Span, TextSource
from tavernkit.report import family_of, lore_rows, overview, render_cache_html, render_html
from tavernkit.report._html import Rectangle, squarify
from tavernkit.report._overview import sentences_of, words_of
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LoreMessage
from tavernkit.risu_ai._lorebook import ScanInput as LorebookInput
from tests.silly_tavern.world_info.scanning import make_book, scan

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&{{ 7*7 }}"


def hostile_plan() -> Plan:
    return Plan(
        blocks=[
            Block(
                role="system",
                content=HOSTILE,
                name=HOSTILE,
                metadata={"source": {"kind": "lore", "name": HOSTILE, "reason": HOSTILE}},
            )
        ],
        warnings=[HOSTILE],
        count_tokens=len,
    )


class Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.tags: set[str] = set()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_nothing_hostile_becomes_markup() -> None:
    page = render_html(overview(hostile_plan()), title=HOSTILE, messages=[{"content": HOSTILE}])
    collector = Collector()
    collector.feed(page)
    assert collector.scripts == 1
    assert "img" not in collector.tags
    assert collector.handlers == []
    assert "49" not in re.findall(r">\s*49\s*<", page)


def test_half_characters_do_not_keep_the_page_from_being_saved() -> None:
    page = render_html(overview(Plan([Block("user", "cut \ud83d")])), messages=[{"content": "said \ud83d"}])
    shown = page.encode().decode()
    assert "cut \ufffd" in shown
    assert "said \ufffd" in shown
    assert "cut \ufffd" in render_cache_html(CacheReport(PROFILES["anthropic"], []), title="cut \ud83d")


def test_the_page_needs_no_network() -> None:
    page = render_html(overview(hostile_plan()))
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)


def mapped_plan(text: str) -> Plan:
    character = Character(name="Aria", description=text)
    return silly_tavern.build(
        character=character,
        message="Hello {{char}}, look.",
        books=[make_book({"key": ["look"], "comment": "Look", "content": "A view."}, {"key": ["x"], "content": "No."})],
    )


def test_every_word_of_the_page_has_its_source_beside_it() -> None:
    view = overview(mapped_plan("She keeps 🕯 lamps."), sources=True)
    page = render_html(view)
    found = re.search(r'<span class="words w-verbatim"[^>]*data-source="(\d+)"[^>]*>She keeps 🕯 lamps.</span>', page)
    assert found is not None
    assert re.search(rf'id="source-{found[1]}" data-label="card Aria /data/description" hidden>\nShe keeps', page)
    assert 'data-how="through {{char}} in message"' in page
    assert 'id="origin"' in page


@given(st.text('ab.!?" \n🕯', min_size=1, max_size=60).map(lambda text: f"A{text}B"))
def test_every_sentence_has_its_own_place_in_its_source(text: str) -> None:
    source = TextSource("card", "Aria", "/data/description", f"Here: {text}")
    (whole,) = words_of(text, [Span(0, len(text), "verbatim", source, 6)])
    found = list(sentences_of([whole]))
    assert "".join(words.text for words in found) == text
    assert all(source.text[words.start : words.end] == words.text for words in found)
    assert all(not re.search(r"[.!?]\s+\S", words.text) for words in found)


def test_the_lore_tab_has_tokens_per_entry() -> None:
    view = overview(mapped_plan("x"), sources=True)
    entry = next(row for row in view.lore if row.active)
    assert view.lore_tokens == {entry.id: view.lore_tokens[entry.id]}
    assert view.lore_tokens[entry.id] > 0
    assert f'<td class="number">{view.lore_tokens[entry.id]}</td>' in render_html(view)
    told = json.loads(json.dumps(view.to_dict()))
    assert [row.get("tokens") for row in told["lore"]] == [view.lore_tokens[entry.id], None]
    assert told["source_map"]["exact"] is True


def test_hostile_sources_stay_text() -> None:
    page = render_html(overview(mapped_plan(HOSTILE.replace("{{ 7*7 }}", "")), sources=True))
    collector = Collector()
    collector.feed(page)
    assert (collector.scripts, collector.handlers, "img" in collector.tags) == (1, [], False)


def test_without_sources_nothing_is_built_again() -> None:
    view = overview(hostile_plan())
    assert view.source_map is None
    assert all(not part.words for part in view.parts)


def test_the_overview_counts_by_source() -> None:
    plan = Plan(
        blocks=[
            Block(role="system", content="abc", metadata={"source": {"kind": "preset prompt"}}),
            Block(role="user", content="abcde", metadata={"source": {"kind": "history"}}),
            Block(role="user", content="x", enabled=False, metadata={"source": {"kind": "history"}}),
        ],
        count_tokens=len,
    )
    view = overview(plan)
    assert {share.family.name: share.tokens for share in view.shares} == {"preset": 3, "history": 5}
    assert view.total_tokens == 8
    assert len(view.left_out) == 1
    assert json.loads(json.dumps(view.to_dict()))["tokens_by_source"] == {"preset": 3, "history": 5}


@pytest.mark.parametrize(
    ("source", "family"),
    [
        ({"kind": "lore"}, "lore"),
        ({"kind": "card field", "id": "mes_example"}, "example"),
        ({"kind": "card field", "id": "scenario"}, "card"),
        ({"kind": "main prompt + lore Lamp"}, "preset"),
        ({"kind": "something new", "stage": "chat"}, "history"),
        ({"kind": "something new"}, "other"),
        ("history", "history"),
        (None, "other"),
    ],
)
def test_families(source: object, family: str) -> None:
    block = Block(role="system", content="x", metadata={"source": source})  # pyright: ignore[reportArgumentType]
    assert family_of(block).name == family


def test_the_lore_of_a_world_book_is_listed_with_what_is_in_first() -> None:
    book = make_book(
        {"key": ["oil"], "comment": "Oil", "content": "Slippery."},
        {"key": ["lamp"], "content": "Bright, {{user}}."},
        {"key": ["ghost"], "content": "Boo."},
    )
    result = scan(book, "the lamp", expand=lambda text: text.replace("{{user}}", "Ann"))
    rows = lore_rows(result)
    assert [(row.title, row.active, row.content) for row in rows] == [
        ("lamp", True, "Bright, Ann."),
        ("Oil", False, "Slippery."),
        ("ghost", False, "Boo."),
    ]
    assert "'lamp'" in rows[0].reason
    assert json.loads(json.dumps(rows[0].to_dict()))["keys"] == ["lamp"]
    assert [row.title for row in lore_rows(result, limit=1)] == ["lamp", "Oil"]


def test_the_lore_of_a_risu_lorebook_is_listed_with_what_is_in_first() -> None:
    entries = [
        LorebookEntry(key="oil", comment="Oil", content="Slippery."),
        LorebookEntry(key="lamp", comment="Lamp", content="@@depth 2\nBright."),
        LorebookEntry(key="ghost", comment="Ghost", content="Boo."),
    ]
    result = LorebookEngine().scan(LorebookInput(entries=entries, messages=[LoreMessage("user", "the lamp")]))
    rows = lore_rows(result)
    assert [(row.id, row.title, row.active, row.content) for row in rows] == [
        ("1", "Lamp", True, "Bright."),
        ("0", "Oil", False, "Slippery."),
        ("2", "Ghost", False, "Boo."),
    ]
    assert rows[0].reason == "key 'lamp' in message #0 (user)"
    assert [row.title for row in lore_rows(result, limit=1)] == ["Lamp", "Oil"]


def test_a_plan_without_lore_has_no_rows() -> None:
    assert lore_rows(None) == []


@given(st.lists(st.integers(0, 100_000), max_size=40))
def test_the_map_gives_each_weight_its_share_and_stays_inside(weights: list[int]) -> None:
    area = Rectangle(0, 0, 100, 60)
    cells = squarify(weights, area)
    total = sum(weights)
    assert len(cells) == len(weights)
    for weight, cell in zip(weights, cells, strict=True):
        if total:
            assert cell.width * cell.height == pytest.approx(weight / total * 6000, abs=1e-3)
        assert -1e-6 <= cell.x <= 100 + 1e-6
        assert cell.x + cell.width <= 100 + 1e-6
        assert cell.y + cell.height <= 60 + 1e-6
