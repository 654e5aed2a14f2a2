"""Files, groups, examples and replies that take the time of their length, not minutes or all memory."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tavernkit.errors import LimitExceededError
from tavernkit.risu_ai import RisuCharacter, RisuChat, RisuMessage, Save, build
from tavernkit.risu_ai._chat.groups import speakers
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._files.message_pack import MessagePackError, pack, unpack
from tavernkit.risu_ai._files.preset_file import read_preset
from tavernkit.risu_ai._lorebook import ActiveLore
from tavernkit.risu_ai._prompt_template.cards import PlainCard
from tavernkit.risu_ai._requests.text_completion import cut_reply
from tavernkit.risu_ai._steps.cbs import example_messages
from tavernkit.risu_ai._steps.plan_assembly import lore_omissions


@contextmanager
def soon() -> Iterator[None]:
    """Let nothing take ten seconds that should take a part of one."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 10


def test_keys_inside_of_keys_are_no_keys() -> None:
    with soon(), pytest.raises(MessagePackError, match="is a dict"):
        unpack(b"\x81" * 200 + b"\xc0" * 201)
    assert unpack(b"\x82\x01\xc0\xc4\x01a\xc0") == {"1": None, "b'a'": None}


def test_a_preset_that_would_take_minutes_to_open_is_refused() -> None:
    data = gzip.compress(pack({"presetVersion": 2, "type": "preset", "preset": bytes(30_000_000)}))
    with soon(), pytest.raises(LimitExceededError, match="sealed"):
        read_preset(data)


def test_a_long_order_of_many_characters_is_brought_up_to_date() -> None:
    ids = [f"c{number}" for number in range(20_000)]
    folders = [{"id": f"f{number}", "data": [*ids, "gone"]} for number in range(5)]
    database = {"characters": [{"chaId": each, "name": each} for each in ids], "characterOrder": [*folders, ["c0"]]}
    with soon():
        save = Save.from_json(database)
    assert save.database["characterOrder"] == [{**folder, "data": ids} for folder in folders]


def test_a_speech_of_many_lines_is_put_together_once() -> None:
    with soon():
        said, answer = example_messages("{{user}}: a" + "\n" * 500_000 + "b\nmira: c:d\n\ne", "mira", str)
    assert said.content == "a" + "\n" * 500_000 + "b"
    assert (answer.role, answer.content) == ("assistant", "c\n\ne")


def test_a_long_name_is_not_copied_for_every_line_of_the_examples() -> None:
    with soon():
        assert example_messages("a\n" * 200_000, "m" * 500_000, str) == []


def test_a_long_message_is_searched_for_the_names_of_many_members() -> None:
    members = [RisuCharacter(id=f"c{number}", name=f"Member {number}") for number in range(3000)]
    raw = {
        "characters": [each.id for each in members],
        "characterTalks": [0.5] * 3000,
        "characterActive": [True] * 3000,
    }
    group = RisuCharacter.from_json({"type": "group", "name": "all", **raw})
    chat = RisuChat(messages=(RisuMessage(role="user", data="who is 2999 or 7 " * 50_000),))
    with soon():
        chosen = speakers(group, members, chat, lambda: 0.9)
    assert chosen == ["c2999", "c7"] * 50_000


def test_a_long_reply_is_cut_at_the_first_of_many_names() -> None:
    messages = [PromptMessage(role="user", content="", name=f"name{number}") for number in range(20_000)]
    reply = "so it was " * 100_000
    with soon():
        assert cut_reply(f"{reply}name7: no name3: yes", messages, "Mira", user_name="Ann") == reply.strip()
        assert cut_reply(reply, messages, "Mira", user_name="Ann") == reply


def test_many_places_for_lore_are_known_once() -> None:
    lore = [ActiveLore(number, "e", "x", pos=f"pt_{number}") for number in range(20_000)]
    text = "".join(f"{{{{position::{number}}}}}" for number in range(1, 20_000))
    with soon():
        missing = [*lore_omissions(lore, [PlainCard(text=text)])]
    assert [(each.id, each.reason) for each in missing] == [("0", "active, but no card has {{position::0}}")]


def test_scripts_that_double_a_text_again_and_again_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen scripts and a message of 800 characters took gigabytes."""
    monkeypatch.setattr("tavernkit.risu_ai._regex_scripts.runner.MAX_SCRIPT_TEXT", 20_000)
    monkeypatch.setattr("tavernkit._text.regex_scripts.MAX_SCRIPT_WORK", 10_000)
    double = {"comment": "s", "in": ".", "out": "$&$&", "type": "editprocess", "flag": "g", "ableFlag": True}
    card = RisuCharacter.from_json({"name": "A", "desc": "d", "customscript": [double] * 14})
    messages = [{"role": "user", "content": f"ab{number} " * 200} for number in range(5)]
    plan = build(character=card, history=messages, message="hi", on_overflow="return", warn=None)
    assert any("the text has more than 20000 characters" in warning for warning in plan.warnings)
    assert any("the regex scripts take too long" in warning for warning in plan.warnings)
