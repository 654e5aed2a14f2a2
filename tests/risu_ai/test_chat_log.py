"""A chat of RisuAI as the core's chat history."""

from __future__ import annotations

import pytest

from tavernkit.errors import ConfigError
from tavernkit.prompt import Message
from tavernkit.risu_ai._chat.chat_log import RisuChatLog, chat_log
from tavernkit.risu_ai._files.chat_file import ChatFile
from tavernkit.risu_ai._objects import RisuChat, RisuMessage

STORED = {"message": [{"role": "user", "data": "Hi."}, {"role": "char", "data": "Yes?"}], "fmIndex": 2}


def texts(log: RisuChatLog) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in log]


def test_stored_messages_are_read_as_messages_of_a_prompt() -> None:
    log = chat_log(STORED)
    assert texts(log) == [("user", "Hi."), ("assistant", "Yes?")]
    assert len(log) == 2
    assert log.chat.greeting_index == 2


@pytest.mark.parametrize(
    ("added", "stored"),
    [
        (RisuMessage(role="char", data="Own."), "char"),
        (Message(role="assistant", content="Own."), "char"),
        ({"role": "model", "content": "Own."}, "char"),
        ({"role": "user", "data": "Own."}, "user"),
        ({"role": "system", "content": "Own."}, "user"),
    ],
)
def test_what_is_added_is_stored_as_risu_ai_stores_it(added: object, stored: str) -> None:
    log = chat_log(None)
    log.append(added)
    assert [(message.role, message.data) for message in log.chat.messages] == [(stored, "Own.")]


def test_the_newest_come_last_and_none_are_none() -> None:
    log = chat_log(STORED)
    assert [message.content for message in log.last(1)] == ["Yes?"]
    assert log.last(0) == []
    assert [message.content for message in log.last(9)] == ["Hi.", "Yes?"]


def test_clearing_takes_the_messages_and_leaves_the_chat() -> None:
    log = chat_log(STORED)
    log.clear()
    assert (len(log), log.chat.greeting_index) == (0, 2)


def test_a_log_and_a_chat_are_taken_as_they_are() -> None:
    log = chat_log(RisuChat.from_json(STORED))
    assert chat_log(log) is log


def test_a_chat_file_must_have_one_chat() -> None:
    chat = RisuChat.from_json(STORED)
    assert chat_log(ChatFile(chats=(chat,))).chat is chat
    unsaid = RisuChat.from_json({"message": []})
    assert chat_log(ChatFile(chats=(unsaid,))).chat.greeting_index == -1
    with pytest.raises(ConfigError, match="has 2 chats"):
        chat_log(ChatFile(chats=(chat, chat)))


@pytest.mark.parametrize("source", ["text", b"bytes", 5, {"messages": []}])
def test_what_is_no_chat_is_refused(source: object) -> None:
    with pytest.raises(ConfigError, match="history must be"):
        chat_log(source)
