"""What other programs read: batch requests, training rows, Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.batching import BatchRecord, GenerateOptions
from tavernkit.batching._tasks import encode
from tests.batching.grids import by_key, records, write_grid


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_bytes().splitlines()]


def test_batch_requests_are_what_a_batch_endpoint_takes(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, text="[defaults]\nresponse_length = 77\n")
    (tmp_path / "cards" / "card9.json").write_text("[]")
    result = tk.batch(grid, tmp_path / "out", format="openai-batch", model="gpt-4o-mini", jobs=1, records_per_part=5)
    assert (result.records, result.failed) == (18, 6)
    made = lines(tmp_path / "out", "part-*.jsonl")
    assert len(made) == 12
    assert len({line["custom_id"] for line in made}) == 12
    for line in made:
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert line["body"]["model"] == "gpt-4o-mini"
        assert line["body"]["max_tokens"] == 77
        assert line["body"]["messages"]
        assert "stream" not in line["body"]
    assert len(lines(tmp_path / "out", "errors-*.jsonl")) == 6
    again = tk.batch(grid, tmp_path / "out", format="openai-batch", model="gpt-4o-mini", jobs=1, resume=True)
    assert (again.made, again.skipped) == (0, 18)


def _is_a_row(row: dict[str, Any]) -> bool:
    """The one schema of rows: `datasets` takes types from the first file and refuses others later."""
    if set(row) == {"key", "prompt", "completion"}:
        return all(isinstance(text, str) for text in row.values())
    said = row.pop("messages")
    return (
        set(row) == {"key"}
        and all(set(message) == {"role", "content"} for message in said)
        and all(isinstance(text, str) for message in said for text in message.values())
    )


def test_training_rows_have_messages_with_roles(tmp_path: Path) -> None:
    tk.batch(write_grid(tmp_path), tmp_path / "out", format="chat", jobs=1)
    rows = records(tmp_path / "out")
    assert len(rows) == 12
    assert {message["role"] for row in rows for message in row["messages"]} <= {"system", "user", "assistant"}
    assert all(map(_is_a_row, rows))


def test_training_rows_keep_their_schema_whatever_is_in_a_message() -> None:
    parts = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": parts, "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    ]
    reply: dict[str, Any] = {"role": "assistant", "content": "A lamp.", "reasoning": "Hm."}
    line, _ = encode(BatchRecord(key="k", inputs={}, messages=said, reply=reply), None, "chat")
    row = json.loads(line)
    assert [message["content"] for message in row["messages"]] == ["Look.", "", "A lamp."]
    assert _is_a_row(row)
    line, _ = encode(BatchRecord(key="k", inputs={}, prompt="Once"), None, "chat")
    assert _is_a_row(json.loads(line))


def test_hugging_face_datasets_reads_training_rows(tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets", reason="reads what --format chat writes")
    generate = GenerateOptions(model="scripted")
    out = tmp_path / "out"
    tk.batch(write_grid(tmp_path), out, format="chat", jobs=1, generate=generate, records_per_part=5)
    files = sorted(map(str, out.glob("part-*.jsonl")))
    assert len(files) == 3
    rows = datasets.load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(rows) == 12
    assert rows[11]["messages"][-1] == {"role": "assistant", "content": "A reply."}


def test_parquet_has_the_same_records_as_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'tavernkit[parquet]'")
    import pyarrow.parquet  # pyright: ignore[reportMissingImports]

    grid = write_grid(tmp_path)
    tk.batch(grid, tmp_path / "lines", jobs=1)
    tk.batch(grid, tmp_path / "out", format="parquet", jobs=1, records_per_part=5)
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert [part.name for part in parts] == [f"part-0000{number}.parquet" for number in range(3)]
    tables = [pyarrow.parquet.read_table(part) for part in parts]
    assert tables[0].schema.metadata[b"tavernkit.schema"] == b"1"
    rows = {row["key"]: row for table in tables for row in table.to_pylist()}
    for key, record in by_key(tmp_path / "lines").items():
        row = rows[key]
        assert [(message["role"], message["content"]) for message in row["messages"]] == [
            (message["role"], message["content"]) for message in record["messages"]
        ]
        assert json.loads(row["inputs"]) == record["inputs"]
        assert (row["tokens"], row["fingerprint"], row["card"]) == (
            record["tokens"],
            record["fingerprint"],
            record["inputs"]["card"],
        )
    assert len(rows) == 12
    (tmp_path / "cards" / "card0.json").unlink()
    result = tk.batch(grid, tmp_path / "out", format="parquet", jobs=1, resume=True)
    assert (result.records, result.made, result.stale) == (6, 0, 6)
    kept = [pyarrow.parquet.read_table(part) for part in sorted((tmp_path / "out").glob("part-*"))]
    assert sum(table.num_rows for table in kept) == 6


def test_without_pyarrow_parquet_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("tavernkit.batching._parquet.import_module", missing)
    with pytest.raises(tk.ConfigError, match="pip install 'tavernkit"):
        tk.batch(write_grid(tmp_path), tmp_path / "out", format="parquet", jobs=1)


def test_half_a_character_can_be_written_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"text": "half \\ud83d of it"}\n', encoding="utf-8")
    write_grid(tmp_path, cards=1)
    grid = {"cards": "cards/*.json", "messages": {"file": "m.jsonl", "column": "text"}}
    forms: list[Any] = ["jsonl", "chat", "openai-batch"]
    try:
        import pyarrow  # noqa: F401  # pyright: ignore[reportMissingImports]

        forms.append("parquet")
    except ModuleNotFoundError:
        pass
    for form in forms:
        result = tk.batch(tk.Grid(grid, folder=tmp_path), tmp_path / form, format=form, model="x", jobs=1)
        assert (result.made, result.failed) == (1, 0), form


def test_records_follow_their_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs/schemas/batch-record.schema.json").read_bytes())
    write_grid(tmp_path, cards=1)
    (tmp_path / "cards" / "broken.json").write_text("[]")
    grid: dict[str, Any] = {
        "cards": "cards/*.json",
        "platforms": ["silly_tavern", "risu_ai"],
        "options": [{}, {"context_length": 900, "on_overflow": "return"}, {"dialect": "text"}],
    }
    tk.batch(tk.Grid(grid, folder=tmp_path), tmp_path / "built", jobs=1)
    answered = GenerateOptions(model="scripted")
    tk.batch(tk.Grid(grid, folder=tmp_path), tmp_path / "answered", generate=answered)
    made = [*records(tmp_path / "built"), *records(tmp_path / "answered")]
    assert len(made) == 24
    for record in made:
        jsonschema.validate(record, schema)
    assert any(record["omissions"] for record in made)
    assert any(record["error"] for record in made)
