"""Limits and turns of RisuAI's parts that the vectors do not show."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import pytest

from tavernkit.errors import LimitExceededError
from tavernkit.risu_ai import RisuCharacter, Settings, build, to_chat_preset
from tavernkit.risu_ai._chat_templates import rendering
from tavernkit.risu_ai._chat_templates.template import OwnTemplate
from tavernkit.risu_ai._files import chat_file
from tavernkit.risu_ai._files.card_import import risu_character
from tavernkit.risu_ai._files.message_pack import MessagePackError, pack, unpack
from tavernkit.risu_ai._limits import MAX_PACK_DEPTH
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, ScanInput
from tavernkit.risu_ai._prompt_template.cards import PromptSettings
from tavernkit.risu_ai.errors import ChatTemplateError
from tests.risu_ai.building.scene import preset
from tests.risu_ai.sending.test_sending import Model, send, texts


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_packed_data_nests_up_to_a_limit() -> None:
    assert unpack(pack(nested(MAX_PACK_DEPTH))) == nested(MAX_PACK_DEPTH)
    with pytest.raises(MessagePackError, match="nests deeper"):
        pack(nested(MAX_PACK_DEPTH + 1))
    with pytest.raises(MessagePackError, match="nests deeper"):
        unpack(b"\x91" * (MAX_PACK_DEPTH + 1) + b"\x01")


def test_packed_data_is_read_however_deep_the_caller_is_in_the_stack() -> None:
    deep = nested(MAX_PACK_DEPTH)
    packed = pack(deep)

    def at_depth(frames: int) -> Any:
        return unpack(packed) if frames == 0 else at_depth(frames - 1)

    assert at_depth(sys.getrecursionlimit() - 300) == deep


def test_what_json_does_not_have_cannot_be_packed() -> None:
    with pytest.raises(MessagePackError, match="set cannot be packed"):
        pack({"a": {1}})


@pytest.mark.parametrize("read", [chat_file.read_chats, chat_file.read_silly_tavern_chat])
def test_a_chat_that_is_too_large_is_refused(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_file, "MAX_CHAT_BYTES", 10)
    with pytest.raises(LimitExceededError) as caught:
        read(b"x" * 11)
    assert caught.value.limit == "MAX_CHAT_BYTES"


def test_a_chat_template_writes_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_TEMPLATE_OUTPUT", 50)
    endless = OwnTemplate("{% for i in range(100) %}ab{% endfor %}")
    with pytest.raises(ChatTemplateError, match="writes more than 50 characters"):
        endless.render([], character_name="Mira", user_name="Ann")


def test_a_character_is_made_of_risuais_own_json() -> None:
    made = risu_character({"name": "Mira", "chaId": "c1"})
    assert isinstance(made, RisuCharacter)
    assert (made.name, made.id) == ("Mira", "c1")


def test_the_budget_of_a_preset_has_its_neutral_names() -> None:
    chosen = preset(max_context=5000, max_response=700)
    assert (chosen.context_window_tokens, chosen.reserved_response_tokens) == (5000, 700)
    assert chosen.max_prompt_tokens <= 4300


def test_a_switch_that_is_rare_is_written_only_when_it_is_on() -> None:
    assert "trimStartNewChat" not in PromptSettings().to_json()
    assert PromptSettings(trim_start_new_chat=True).to_json()["trimStartNewChat"] is True


def test_an_entry_that_nobody_knows_cannot_be_explained() -> None:
    result = LorebookEngine().scan(ScanInput(entries=[LorebookEntry(key="a", comment="Town")]))
    assert result.explain("Town").title == "Town"
    with pytest.raises(KeyError, match="no entry is called 'City'"):
        result.explain("City")


def test_warnings_of_a_send_reach_the_caller() -> None:
    heard: list[str] = []
    only_system = preset([{"type": "plain", "type2": "main", "text": "Main.", "role": "system"}])
    result = send(Model("Hm."), preset=only_system, warn=heard.append)
    assert texts(result)[-1] == "Hm."
    assert set(heard) <= set(result.warnings)


NUMBERS = ("temperature", "top_p", "top_k", "frequencyPenalty", "maxContext", "customAPIFormat", "thinkingTokens")
CARDS = [
    {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
    {"type": "chat", "rangeStart": "VALUE", "rangeEnd": "VALUE"},
    {"type": "cache", "depth": "VALUE", "role": "all"},
]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, -(10**400)])
def test_numbers_that_no_program_can_write_break_no_build(value: float) -> None:
    template = [{key: value if each == "VALUE" else each for key, each in card.items()} for card in CARDS]
    own = {"id": "xcustom:::own", "name": "Own", "format": value, "tokenizer": value}
    for model in ("xcustom:::own", "reverse_proxy", "claude-opus-4-5-20251101"):
        settings = Settings.from_json(
            {"aiModel": model, "customModels": [own], "promptTemplate": template, **dict.fromkeys(NUMBERS, value)}
        )
        history = {"message": [{"role": "user", "data": "Hi.", "time": value}], "fmIndex": value}
        plan = build(character={"name": "Mira"}, settings=settings, history=history, on_overflow="return")
        assert plan.greeting_index is None
        json.dumps(plan.reference_request().body, allow_nan=False)
    json.dumps(to_chat_preset(settings.preset), allow_nan=False)
