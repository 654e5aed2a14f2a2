"""Grids: what they are read from, and which combinations they have."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tavernkit as tk
from tavernkit.batching._grid import Selection
from tavernkit.batching._tasks import Persona
from tests.batching.grids import write_grid


def grid(**keys: object) -> tk.Grid:
    return tk.Grid({"cards": ["a.json"], **keys})


def test_a_product_has_every_combination_once() -> None:
    made = list(grid(cards=["a.json", "b.json"], messages=["x", "y"], seeds=[1, 2, 3]).tasks())
    assert len(made) == 12
    assert len({task.key for task in made}) == 12
    assert {(task.card.name, task.message, task.seed) for task in made} == {
        (card, message, seed) for card in ("a.json", "b.json") for message in "xy" for seed in (1, 2, 3)
    }


def test_prompts_that_begin_alike_come_one_after_another() -> None:
    cards = [task.card.name for task in grid(seeds=[1, 2], messages=["x", "y"], cards=["a.json", "b.json"]).tasks()]
    assert cards == sorted(cards)


def test_zip_goes_row_by_row() -> None:
    made = grid(combine="zip", cards=["a.json", "b.json"], messages=["x", "y"], seeds=[7]).tasks()
    assert [(task.card.name, task.message, task.seed) for task in made] == [("a.json", "x", 7), ("b.json", "y", 7)]


def test_some_axes_can_go_together_in_a_product() -> None:
    made = grid(zip=[["chats", "messages"]], chats=["1.jsonl", "2.jsonl"], messages=["x", "y"], seeds=[1, 2]).tasks()
    found = [(task.chat.name, task.message, task.seed) for task in made if task.chat is not None]
    assert found == [("1.jsonl", "x", 1), ("1.jsonl", "x", 2), ("2.jsonl", "y", 1), ("2.jsonl", "y", 2)]


def test_zipped_axes_must_be_of_one_length() -> None:
    with pytest.raises(tk.ConfigError, match="messages 3"):
        grid(combine="zip", messages=["x", "y", "z"], seeds=[1, 2])


@settings(max_examples=10, deadline=None)
@given(sample=st.integers(1, 400), seed=st.integers(0, 5))
def test_a_sample_takes_so_many_different_ones(sample: int, seed: int) -> None:
    made = grid(messages=["x", "y", "z"], seeds={"count": 100}, sample=sample, sample_seed=seed)
    keys = {task.key for task in made.tasks()}
    assert len(keys) == len(made) == min(sample, 300)


def test_another_seed_samples_others() -> None:
    def keys(seed: int) -> set[str]:
        return {task.key for task in grid(seeds={"count": 1000}, sample=10, sample_seed=seed).tasks()}

    assert keys(1) == keys(1)
    assert keys(1) != keys(2)


def test_a_row_that_is_there_twice_counts_once() -> None:
    made = grid(messages=["x", "y", "x"])
    assert len(made) == 2
    assert made.duplicates == 1


@settings(max_examples=7, deadline=None)
@given(shards=st.integers(1, 7))
def test_shards_are_the_whole_and_do_not_overlap(shards: int) -> None:
    whole = grid(messages=["x", "y"], seeds={"count": 50})
    parts = [{task.key for task in whole.tasks(Selection(shard, shards))} for shard in range(shards)]
    assert set().union(*parts) == {task.key for task in whole.tasks()}
    assert sum(map(len, parts)) == len(whole)


def test_a_record_stays_in_its_shard_whatever_is_inserted() -> None:
    def keys(messages: list[str]) -> set[str]:
        return {task.key for task in grid(messages=messages, seeds={"count": 20}).tasks(Selection(0, 3))}

    assert keys(["x", "y"]) < keys(["new", "x", "y"])


def test_the_key_depends_on_every_input_and_on_the_content_of_files(tmp_path: Path) -> None:
    def key(**keys: object) -> str:
        return next(tk.Grid({"cards": "a.json", **keys}, folder=tmp_path).tasks()).key

    (tmp_path / "a.json").write_text("{}")
    plain = key()
    others = [
        key(messages="x"),
        key(seeds=5),
        key(personas=["Ann"]),
        key(platforms="risu_ai"),
        key(books=["b.json"]),
        key(books=[["b.json", "c.json"]]),
        key(chats=["c.jsonl"]),
        key(presets="p.json"),
        key(defaults={"context_length": 100}),
        key(options=[{"llm_options": {"temperature": 1}}]),
    ]
    assert len({plain, *others}) == len(others) + 1
    assert key(options=[{"context_length": 100}]) == key(defaults={"context_length": 100})
    (tmp_path / "a.json").write_text("{ }")
    assert key() != plain


def test_the_key_depends_on_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = next(grid().tasks()).key
    monkeypatch.setattr("tavernkit.batching._tasks._VERSION", b"another")
    assert next(grid().tasks()).key != before


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"card": "a.json"}, "did you mean 'cards'"),
        ({"platforms": ["sillytavern"]}, "did you mean 'silly_tavern'"),
        ({"defaults": {"contxt_length": 1}}, "did you mean 'context_length'"),
        ({"personas": [{"nam": "Ann"}]}, "did you mean 'name'"),
        ({"zip": [["message", "seeds"]]}, "did you mean 'messages'"),
        ({"combine": "both"}, "product or zip"),
        ({"cards": "no/*.png"}, "no file matches"),
        ({"cards": []}, "needs cards"),
        ({"messages": []}, "no value"),
        ({"cards": ["no/*.png", "no/*.json"]}, r"no file matches 'no/\*.png'"),
        ({"cards": ["", "cards/card0.json"]}, "every prompt needs a card"),
        ({"seeds": [1.5]}, "numbers or texts"),
        ({"seeds": {"count": 1, "strat": 2}}, "did you mean 'start'"),
        ({"sample": -1}, "whole number"),
        ({"defaults": {"now": "soon"}}, "a time such as"),
        ({"defaults": {"greeting": "first"}}, "a whole number"),
        ({"messages": {"file": "x.doc"}}, "not one of .jsonl"),
        ({"messages": {"file": "x.jsonl", "col": "a"}}, "has no 'col'"),
        ({"messages": {"file": "missing.jsonl"}}, "cannot be read"),
    ],
)
def test_what_is_wrong_is_refused_with_advice(keys: dict[str, object], message: str) -> None:
    with pytest.raises(tk.ConfigError, match=message):
        grid(**keys)


def test_columns_of_tables(tmp_path: Path) -> None:
    rows = [{"text": "one", "n": 1}, {"text": "two, and\nthree", "n": 2}]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    (tmp_path / "t.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "t.csv").write_text('n,text\n1,one\n2,"two, and\nthree"\n', encoding="utf-8")
    (tmp_path / "t.tsv").write_text('n\ttext\n1\tone\n2\t"two, and\nthree"\n', encoding="utf-8")
    for name in ("t.jsonl", "t.json", "t.csv", "t.tsv"):
        made = tk.Grid({"cards": "a.json", "messages": {"file": name, "column": "text"}}, folder=tmp_path)
        assert [task.message for task in made.tasks()] == ["one", "two, and\nthree"], name
    with pytest.raises(tk.ConfigError, match="did you mean 'text'"):
        tk.Grid({"cards": "a.json", "messages": {"file": "t.jsonl", "column": "txt"}}, folder=tmp_path)


def test_columns_of_parquet_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'tavernkit[parquet]'")
    import pyarrow  # pyright: ignore[reportMissingImports]
    import pyarrow.parquet  # pyright: ignore[reportMissingImports]

    pyarrow.parquet.write_table(pyarrow.table({"text": ["one", "two"], "n": [1, 2]}), tmp_path / "t.parquet")
    made = tk.Grid({"cards": "a.json", "messages": {"file": "t.parquet", "column": "text"}}, folder=tmp_path)
    assert [task.message for task in made.tasks()] == ["one", "two"]
    with pytest.raises(tk.ConfigError, match="did you mean 'text'"):
        tk.Grid({"cards": "a.json", "messages": {"file": "t.parquet", "column": "txt"}}, folder=tmp_path)


def test_rows_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "one"}\n{broken\n{"other": 1}\n', encoding="utf-8")
    log = tk.WarningLog()
    made = tk.Grid({"cards": "a.json", "messages": {"file": "t.jsonl", "column": "text"}}, folder=tmp_path, warn=log)
    assert [task.message for task in made.tasks()] == ["one"]
    assert "2 rows were left out" in log.messages[0]


def test_lines_of_text_and_rows_as_personas_and_options(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("first\n\nsecond\r\n", encoding="utf-8")
    (tmp_path / "p.jsonl").write_text('{"name": "Ann"}\n{"name": "Bo", "description": "A sailor."}\n', encoding="utf-8")
    made = tk.Grid({"cards": "a.json", "messages": {"file": "m.txt"}, "personas": {"file": "p.jsonl"}}, folder=tmp_path)
    assert [(task.persona.name, task.persona.description, task.message) for task in made.tasks()] == [
        ("Ann", "", "first"),
        ("Ann", "", "second"),
        ("Bo", "A sailor.", "first"),
        ("Bo", "A sailor.", "second"),
    ]


def test_rows_with_a_number_each_need_not_be_compared(tmp_path: Path) -> None:
    write_grid(tmp_path)
    seeds = {"start": 0, "count": 1_000_000_000}
    read = tk.Grid({"cards": "cards/card0.json", "seeds": seeds, "combine": "zip"}, folder=tmp_path)
    assert len(read) == 1_000_000_000
    assert [task.seed for task in islice(read.tasks(), 3)] == [0, 1, 2]


def test_null_is_like_a_missing_key(tmp_path: Path) -> None:
    write_grid(tmp_path)
    seeds = {"start": None, "count": None}
    read = tk.Grid({"cards": "cards/card0.json", "seeds": seeds, "sample": None}, folder=tmp_path)
    assert [task.seed for task in read.tasks()] == [0]


def test_a_glob_of_several_may_match_nothing(tmp_path: Path) -> None:
    write_grid(tmp_path)
    said: list[str] = []
    read = tk.Grid({"cards": ["cards/*.png", "cards/*.json"]}, folder=tmp_path, warn=said.append)
    assert len(read) == 2
    assert said == [f"cards: no file matches 'cards/*.png' in {tmp_path.resolve()}"]


def test_globs_are_sorted_and_relative_to_the_grid(tmp_path: Path) -> None:
    read = tk.Grid.load(write_grid(tmp_path, cards=3))
    assert list(dict.fromkeys(task.card.name for task in read.tasks())) == [
        "cards/card0.json",
        "cards/card1.json",
        "cards/card2.json",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    )
)
def test_any_value_is_read_or_refused(value: object) -> None:
    for key in ("presets", "books", "personas", "chats", "options", "messages", "seeds", "zip", "sample", "defaults"):
        try:
            made = grid(**{key: value})
        except tk.ConfigError:
            continue
        assert len(list(made.tasks(Selection(limit=3)))) <= 3


def test_a_file_that_is_no_grid_is_named(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("cards = ", encoding="utf-8")
    with pytest.raises(tk.ConfigError, match=r"grid\.toml is not TOML"):
        tk.Grid.load(tmp_path / "grid.toml")
    with pytest.raises(tk.ConfigError, match="No such file"):
        tk.Grid.load(tmp_path / "missing.toml")


def test_a_persona_without_a_value_has_none(tmp_path: Path) -> None:
    """Rows of a table may have nulls."""
    rows = [{"name": "Ann", "description": None}, {"name": None, "description": "A sailor."}, {"name": 0}]
    (tmp_path / "personas.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = tk.Grid({"cards": ["aria.json"], "personas": {"file": "personas.jsonl"}}, folder=tmp_path)
    assert [task.persona for task in made.tasks()] == [Persona("Ann"), Persona("", "A sailor."), Persona("0")]
