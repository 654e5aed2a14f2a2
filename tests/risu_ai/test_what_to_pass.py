"""Mistakes that are found inside arguments, or later: programmers are told what to pass, files are read on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tavernkit import Character, ConfigError, risu_ai
from tavernkit.errors import WarningLog
from tavernkit.risu_ai import (
    BuildContext,
    Builder,
    LorebookEntry,
    Preset,
    RegexScript,
    RisuCharacter,
    RisuChat,
    RisuContext,
    RisuMessage,
    RisuModule,
    Send,
)
from tests.wrong_arguments import Odd

CARD = Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Bel"}})
kit: Any = risu_ai  # type checkers would find the mistakes


MESSAGE = RisuMessage(role="user", data="a")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            lambda odd: kit.RisuChat(messages=[MESSAGE, odd]),
            "RisuChat.messages must be a list of RisuMessages, not list",
        ),
        (lambda odd: Builder(members=[None]), r"members\[0\] must be a character, not None"),
        (lambda odd: kit.write_scripts([odd]), "scripts must be a list of RegexScripts, not tuple"),
        (lambda odd: kit.RegexScriptRunner().run("a", "editinput", [odd], RisuContext()), "scripts must be a list of"),
        (lambda odd: kit.CBSRegistry([odd]), "function must be a CBSFunction, not Odd"),
        (
            lambda odd: kit.replace_inlays("{{inlay::a}}", {"a": odd}),
            r"inlays\['a'\] must be a ShownInlay, not Odd",
        ),
        (lambda odd: kit.scripts_of(RisuContext(), Preset()), "preset must be .* such as Preset.regex, not Preset"),
        (
            lambda odd: kit.RisuContext().replace(chatt=RisuChat()),
            "a RisuContext has no 'chatt'; it has char, speaker,",
        ),
        (
            lambda odd: kit.TriggerEngine().run(RisuContext(), "start", hots=odd),
            "there is no option 'hots'; pass host,",
        ),
        (lambda odd: kit.TriggerEngine().run(RisuContext(), "begin"), "mode must be one of start, .*, not 'begin'"),
        (lambda odd: kit.RegexScriptRunner().run("a", "edit", (), RisuContext()), "mode must be one of 'editinput', "),
    ],
)
def test_messages_say_what_to_pass(function: Callable[[Any], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        function(Odd())


@pytest.mark.parametrize("made", [None, 5, Odd()])
def test_a_model_must_return_text_or_pieces_of_it(made: Any) -> None:
    with pytest.raises(ConfigError, match="what a model returns must be text or an iterable of texts, not"):
        Builder(character=CARD).send(lambda request: made, message="Hi")
    with pytest.raises(ConfigError, match="what a model returns must be an awaitable or an asynchronous iterable"):
        asyncio.run(Builder(character=CARD).send_async(lambda request: made, message="Hi"))
    with pytest.raises(ConfigError, match=r"Chunk\.text must be text"):
        Builder(character=CARD).send(lambda request: iter([b"Hi"]), message="Hi")  # pyright: ignore[reportArgumentType]  # the mistake


def test_who_drives_a_send_must_answer() -> None:
    whole = Send(Builder(), BuildContext.make(character=CARD, message="Hi")).run()
    next(whole)
    with pytest.raises(ConfigError, match="the answer must be a Reply, a Failure, a StreamOpened or a Chunk, not None"):
        next(whole)
    streamed = Send(Builder(), BuildContext.make(character=CARD, message="Hi")).run()
    next(streamed)
    streamed.send(risu_ai.StreamOpened())
    with pytest.raises(ConfigError, match="the answer must be"):
        next(streamed)


def test_what_files_hold_is_reported_and_left_out() -> None:
    log = WarningLog()
    assert LorebookEntry.from_json("nonsense", warn=log) is None
    assert risu_ai.read_scripts("nonsense", "the file", log) == []
    assert risu_ai.read_scripts(None, "the file", log) == []
    assert list(log.messages) == [
        "lorebook entry is left out: it must be an object, not str",
        "the regex scripts of the file are left out: they must be a list, not str",
    ]


@pytest.mark.parametrize(
    "record",
    [
        RisuCharacter.from_json({"name": "Bel", "globalLore": [{"key": "a"}]}),
        RisuChat.from_json({"message": [{"role": "user", "data": "a"}], "fmIndex": 1}),
        RisuMessage.from_json({"role": "user", "data": "a", "time": 5}),
        RisuModule.from_json({"id": "m", "lorebook": [{"key": "a"}]}),
        LorebookEntry.from_json({"key": "a", "insertorder": 5}),
        RegexScript.from_json({"in": "a", "ableFlag": True}),
    ],
)
def test_what_readers_make_unchecked_would_stand_the_check(record: Any) -> None:
    fields = {name: getattr(record, name) for name in inspect.signature(type(record)).parameters}
    assert type(record)(**fields) == record


def test_a_changed_context_is_like_one_made_anew() -> None:
    context = RisuContext(char="Bel", user="Ann", chat=RisuChat(messages=(MESSAGE,)))
    other = context.replace(char="Eve", role="user")
    assert other.character == RisuCharacter(name="Eve")
    assert (other.role, other.user, other.chat) == ("user", "Ann", context.chat)
    assert (context.character_name, context.role) == ("Bel", None)
    assert context.replace(char=None).character is None
