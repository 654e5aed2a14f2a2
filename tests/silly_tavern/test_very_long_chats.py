"""Chat files of a million lines: read within limits, and never shortened."""

from __future__ import annotations

import json
import tracemalloc
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.conversation import Conversation
from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import ChatFile, DataFolder
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._files import chat_file
from tavernkit.testing import ScriptedModel
from tests.silly_tavern import generated_folder as made

MILLION = 1_000_000
HEADER = json.dumps({"user_name": "Ann", "character_name": "Lyra Vale", "chat_metadata": {"mine": 1}})


def write(path: Path, count: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f'{{"name":"Ann","is_user":true,"mes":"m{number}"}}' for number in range(count))
    content = "\n".join([HEADER, *lines]).encode()
    path.write_bytes(content)
    return content


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(chat_file, "MAX_CHAT_LINES", 5)
    return 5


def test_of_a_million_lines_only_the_last_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "long.jsonl", MILLION)
    parsed = 0
    read = chat_file.parse_line

    def counted(*values: object, **more: object) -> object:
        nonlocal parsed
        parsed += 1
        return read(*values, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(chat_file, "parse_line", counted)
    monkeypatch.setattr(chat_file, "MAX_CHAT_LINES", 1000)
    log = WarningLog()
    chat = ChatFile.load(tmp_path / "long.jsonl", warn=log)
    assert parsed == 1001
    assert [chat.messages[0].mes, chat.messages[-1].mes] == [f"m{MILLION - 1000}", f"m{MILLION - 1}"]
    assert chat.earlier_lines == MILLION - 1000
    assert chat.metadata.get("mine") == 1
    assert log.messages == ("chat 'long' is very long: only its last 1,000 lines are read, 999,000 are not",)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 7, 20])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.usefixtures("few")
def test_nothing_is_lost_when_it_is_written(count: int, header: bool, end: str) -> None:
    lines = [f'{{"name":"Ann","is_user":true,"mes":"m{number}"}}' for number in range(count)]
    chat = ChatFile.loads("\n".join([*([HEADER] if header else []), *lines]) + end, warn=lambda _: None)
    assert chat.earlier_lines + len(chat.messages) == count
    written = chat.with_messages(ChatMessage(name="Ann", mes="new", is_user=True)).dumps().split("\n")
    assert [json.loads(line)["mes"] for line in written[1:]] == [*(f"m{number}" for number in range(count)), "new"]


@pytest.mark.usefixtures("few")
async def test_a_conversation_goes_on_in_a_long_file(tmp_path: Path) -> None:
    before = write(tmp_path / "long.jsonl", 20)
    warnings: list[str] = []
    chat = Conversation.open(
        tmp_path / "long.jsonl", card=made_card(), user="Ann",
        model=ScriptedModel("Yes."), warn=warnings.append,
    )  # fmt: skip
    await chat.send("new")
    written = (tmp_path / "long.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line)["mes"] for line in written[1:]] == [*(f"m{number}" for number in range(20)), "new", "Yes."]
    assert written[1:16] == before.split(b"\n")[1:16]
    assert len(warnings) == 1
    assert not list(tmp_path.glob("*damaged*"))  # noqa: ASYNC240


def made_card() -> bytes:
    data = {"name": "Lyra", "description": "L.", "first_mes": "Hm."}
    return json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}).encode()


@pytest.mark.usefixtures("few")
def test_a_data_folder_builds_with_a_long_chat(tmp_path: Path) -> None:
    made.write_json(tmp_path / "settings.json", made.settings())
    made.write_character(tmp_path, 0)
    for index in range(made.BOOKS):
        made.write_json(tmp_path / "worlds" / f"Book {index}.json", made.book(index))
    write(tmp_path / "chats" / made.name_of(0) / "long.jsonl", 20)
    log = WarningLog()
    plan = DataFolder(tmp_path, warn=log).builder(made.name_of(0), "long").build(message="Go on.")
    texts = [message.content for message in plan.messages]
    assert "m19" in texts
    assert "m14" not in texts
    assert any("very long" in message for message in log.messages)


@given(
    st.lists(st.sampled_from(['{"mes": "é"}', '{"chat_metadata": {}}', "", "\r", '{"mes": "\U0001f600"}\r', "?"])),
    st.booleans(),
    st.integers(1, 40),
)
def test_files_are_cut_in_the_same_place_however_they_are_read(lines: list[str], marked: bool, block: int) -> None:
    text = "\n".join(lines)
    said: list[WarningLog] = [WarningLog() for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_file, "MAX_CHAT_LINES", 2)
        expected = ChatFile.loads(text, warn=said[0])
        patch.setattr(chat_file, "BLOCK", block)
        content = (BOM_UTF8 if marked else b"") + text.encode()
        read, end = ChatFile.load(content, warn=said[1]), ChatFile.load_end(content, warn=said[2])
        header = ChatFile.load_end(content, header_only=True, warn=lambda _: None)
    assert (read.earlier, len(read), read.dumps()) == (expected.earlier, len(expected), expected.dumps())
    assert [line.mes for line in end.messages] == [line.mes for line in read.messages]
    assert said[0].messages == said[1].messages == said[2].messages
    assert end.earlier == b""
    assert end.header == read.header
    assert header.messages == ()
    if text.startswith('{"chat'):
        assert header.header == read.header


@pytest.mark.usefixtures("few")
def test_bytes_that_are_not_text_are_reported_once_and_kept_in_lines_that_are_not_read(tmp_path: Path) -> None:
    lines = [HEADER.encode(), *(b'{"name":"Ann","is_user":true,"mes":"\xff%d"}' % number for number in range(9))]
    (tmp_path / "long.jsonl").write_bytes(b"\n".join(lines))
    log = WarningLog()
    chat = ChatFile.load(tmp_path / "long.jsonl", warn=log)
    assert [line.mes for line in chat.messages] == [f"\ufffd{number}" for number in range(4, 9)]
    assert "long.jsonl: bytes that are not UTF-8 were replaced by U+FFFD in 5 lines, the first is 6" in log.messages[1]
    assert len(log.messages) == 2
    chat.save(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes().split(b"\n")[1:5] == lines[1:5]


def test_a_build_with_a_long_chat_needs_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_file, "MAX_CHAT_LINES", 100)
    size = len(write(tmp_path / "long.jsonl", 300_000))
    tracemalloc.start()
    chat = ChatFile.load_end(tmp_path / "long.jsonl", warn=lambda _: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert chat.messages[-1].mes == "m299999"
    assert peak < size / 3
