from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tavernkit.cards._json_text import parse_json
from tavernkit.errors import StrictModeError, TavernKitError, Warn, WarningLog
from tavernkit.prompt import Message
from tavernkit.silly_tavern import ChatFile, ChatMessage, ChatMetadata
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._files import chat_file

HEADER = {"user_name": "unused", "character_name": "unused", "chat_metadata": {"note_prompt": "N", "tainted": True}}
LINES = [
    {
        "name": "Lyra",
        "is_user": False,
        "is_system": False,
        "mes": "Hi\u2028there",
        "extra": {"api": "openai"},
        "odd": [1],
    },
    {
        "name": "Mira",
        "is_user": True,
        "is_system": False,
        "mes": "Hello",
        "send_date": "now",
        "swipes": ["Hello"],
        "swipe_id": 0,
    },
]


def text(*lines: object) -> str:
    return "\n".join(json.dumps(line) for line in lines)


def test_header_and_messages_are_read_and_written_back_without_loss():
    chat = ChatFile.loads(text(HEADER, *LINES))
    assert chat.metadata.note_prompt == "N"
    assert [message.name for message in chat.messages] == ["Lyra", "Mira"]
    assert [json.loads(line) for line in chat.dumps().split("\n")] == [HEADER, *LINES]


def test_a_chat_without_a_header_keeps_its_first_message():
    assert len(ChatFile.loads(text(*LINES)).messages) == 2


def test_a_broken_line_is_reported_by_its_number_and_skipped():
    log = WarningLog()
    chat = ChatFile.loads(text(HEADER) + "\n{oops\n" + text(LINES[0], 7), warn=log)
    assert len(chat.messages) == 1
    assert ["line 2" in log.messages[0], "line 4" in log.messages[1]] == [True, True]


def test_files_are_loaded_and_saved(tmp_path: Path):
    path = tmp_path / "Lyra - 2024.jsonl"
    path.write_text("\ufeff" + text(HEADER, *LINES), encoding="utf-8")
    chat = ChatFile.load(path)
    assert chat.name == "Lyra - 2024"
    chat.with_messages(ChatMessage(name="Lyra", mes="Bye")).save(path)
    assert [message.mes for message in ChatFile.load(path).messages][-1] == "Bye"


def test_another_kind_of_file_gives_few_warnings():
    said: list[str] = []
    assert not ChatFile.loads("{\n" * 300, warn=said.append).messages
    assert len(said) == 11
    assert said[-1] == "chat: 290 more lines are skipped: is it a chat file?"


def test_strict_loading_refuses_broken_lines(tmp_path: Path):
    path = tmp_path / "chat.jsonl"
    path.write_text("{oops", encoding="utf-8")
    with pytest.raises(StrictModeError, match="line 1"):
        ChatFile.load(path, strict=True)


def test_changed_metadata_is_written_and_the_rest_kept():
    chat = ChatFile.loads(text(HEADER)).with_metadata(note_depth=2)
    assert chat.metadata.to_json() == {"note_prompt": "N", "tainted": True, "note_depth": 2}


def test_values_of_a_wrong_type_count_as_missing():
    metadata = ChatMetadata.from_json({"note_prompt": 3, "note_interval": "x", "note_depth": [1], "variables": [1]})
    assert (metadata.note_prompt, metadata.note_interval, metadata.note_depth) == (None, None, None)
    assert metadata.variables == {}


def test_a_new_message_is_written_with_the_keys_every_line_has():
    assert ChatMessage(name="Lyra", mes="Hi").to_json() == {
        "name": "Lyra",
        "is_user": False,
        "is_system": False,
        "mes": "Hi",
    }


def test_neutral_messages_become_lines():
    log = ChatLog(
        [
            Message(role="user", content="a"),
            {"role": "assistant", "content": "b", "name": "Bram"},
            Message(role="system", content="c"),
        ],
        user_name="Mira",
        character_name="Lyra",
    )
    assert [(line.name, line.is_user, line.narrator) for line in log.lines] == [
        ("Mira", True, False),
        ("Bram", False, False),
        ("Lyra", False, True),
    ]
    assert [message.role for message in log] == ["user", "assistant", "system"]
    assert [message.content for message in log.last(2)] == ["b", "c"]


def test_neutral_tool_calls_become_one_line_with_their_results():
    call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    log = ChatLog(
        [
            Message(role="assistant", content="Let me look.", metadata={"tool_calls": [call]}),
            Message(role="tool", content="High.", metadata={"tool_call_id": "c1"}),
            Message(role="tool", content="Whose?", metadata={"tool_call_id": "c9"}),
        ]
    )
    texts = [line.mes for line in log.lines]
    assert texts == ["Let me look.", "Tool calls: tide", "Whose?"]
    invocations = log.lines[1].tool_invocations
    assert invocations is not None
    assert (invocations[0]["name"], invocations[0]["result"]) == ("tide", "High.")


def test_half_a_character_can_be_saved_and_read_again(tmp_path: Path):
    chat = ChatFile(messages=(ChatMessage(name="Lyra", mes="broken \ud83d emoji"),))
    chat.save(tmp_path / "chat.jsonl")
    assert ChatFile.load(tmp_path / "chat.jsonl").messages[0].mes == "broken \ud83d emoji"


def test_a_line_nested_too_deeply_is_skipped():
    log = WarningLog()
    deep = '{"mes": "x", "extra": ' + "[" * 5000 + "]" * 5000 + "}"
    assert ChatFile.loads(deep, warn=log).messages == ()
    assert "nested deeper" in log.messages[0]


@pytest.mark.parametrize(("encoding", "said"), [("utf-16", "Señor"), ("latin-1", "Se\ufffdor")])
def test_a_chat_in_another_encoding_is_read_with_a_warning(tmp_path: Path, encoding: str, said: str) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"name": "Ann", "is_user": true, "mes": "Señor"}\n', encoding=encoding)
    warnings = WarningLog()
    assert [message.mes for message in ChatFile.load(path, warn=warnings).messages] == [said]
    assert "chat.jsonl" in warnings.messages[0]
    with pytest.raises(StrictModeError):
        ChatFile.load(path, strict=True)


def outcome(read: Callable[[Warn], object]) -> object:
    log = WarningLog()
    try:
        return repr(read(log)), log.messages
    except TavernKitError as error:
        return type(error), str(error), log.messages


@pytest.mark.parametrize(
    "line",
    [
        '{"mes": "a", "mes": "b"}', '{"n": NaN}', '{"n": -Infinity}', '{"n": 1e999}', '{"n": 1.5, "m": [1, -2]}',
        '{"n": 1%s}' % ("0" * 500), '{"n": 1%s}' % ("0" * 5000), '{"mes": "tab\there"}', '{"mes": "a"}\0\0',
        '\ufeff{"mes": "a"}', '{"mes": "\\ud800"}', '{"extra": {"a": {"a": [{"a": 1, "a": 2}]}}}', "[" * 5000,
        '{"mes": "[[[[{{{{"}', ' {"mes": "a"} ', '{"mes": "a"} {"mes": "b"}', "[1]", "{", "", '"a"', "7",
    ],
)  # fmt: skip
def test_lines_are_repaired_and_refused_as_other_json(line: str) -> None:
    def read(warn: Warn) -> object:
        return chat_file.parse_line(line, "the line", warn)

    def read_as_others(warn: Warn) -> object:
        return parse_json(line, what="the line", warn=warn)

    assert outcome(read) == outcome(read_as_others)


def test_lines_share_their_keys() -> None:
    lines = [json.dumps({"mes": f"Line {n}.", "mood of the day": n, "extra": {"own key": n}}) for n in range(10)]
    chat = ChatFile.loads("\n".join(lines))
    keys = [id(key) for message in chat.messages for key in (*message.source, *message.extra)]
    assert len(set(keys)) == 4


def test_a_card_that_is_read_as_a_chat_is_reported() -> None:
    warnings = WarningLog()
    assert ChatFile.load(b'{"spec": "chara_card_v2", "data": {"name": "Lyra"}}', warn=warnings).messages == ()
    assert warnings.messages == ("the file is read as a chat, but it is a card: little or nothing of it is used",)
