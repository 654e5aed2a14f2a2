from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai import Preset, Settings
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, new_chat_line
from tavernkit.risu_ai._js import replace_all, replace_first
from tavernkit.risu_ai._models import WireFormat, flag_names, model_flags
from tavernkit.risu_ai._requests.messages import RequestRules, request_messages
from tavernkit.risu_ai._requests.reformat import reformat
from tavernkit.risu_ai._requests.text_completion import OobaFormat, chat_text, cut_reply, ooba_text
from tavernkit.risu_ai.errors import RequestFormatError


def message(role: str, content: str, **fields: Any) -> PromptMessage:
    return PromptMessage(role=role, content=content, **fields)


def pairs(messages: list[PromptMessage]) -> list[tuple[str | None, str]]:
    return [(each.role, each.content) for each in messages]


def test_flags_come_from_the_table_the_user_or_a_custom_model():
    assert "hasFullSystemPrompt" in model_flags("gpt4o")
    assert model_flags("gpt4o", custom_flags=[7, 99, "x", True]) == {"hasFirstSystemPrompt"}
    assert model_flags("nobody-knows", custom_flags=[7]) == frozenset()
    assert model_flags("xcustom:::a", custom_models={"xcustom:::a": [6]}) == {"hasFullSystemPrompt"}
    assert flag_names([6.5, -1]) == frozenset()


def test_rewriting_leaves_the_given_messages_alone():
    given = [message("system", "S"), message("user", "U")]
    reformat(given, {"requiresAlternateRole"})
    assert pairs(given) == [("system", "S"), ("user", "U")]


def test_only_system_messages_are_joined_with_a_warning_and_raise_in_strict_mode():
    given = [message("system", "a"), message("system", "b")]
    warnings: list[str] = []
    assert pairs(reformat(given, {"hasFirstSystemPrompt"}, warn=warnings.append)) == [("system", "a\n\nb")]
    assert "nothing but system" in warnings[0]
    with pytest.raises(RequestFormatError):
        reformat(given, {"hasFirstSystemPrompt"}, strict=True)


def test_an_empty_replacement_means_a_plain_prefix():
    assert pairs(reformat([message("system", "$& x")], (), system_content="")) == [("user", "system: $& x")]


@pytest.mark.parametrize(
    ("database", "sent"),
    [({}, "system: {{slot}} x"), ({"systemContentReplacement": ""}, "system: $& x")],
)
def test_a_database_that_says_nothing_has_a_replacement_in_which_patterns_act(database: dict[str, str], sent: str):
    settings = Settings.from_json(database)
    rules = RequestRules.of(settings.preset.replace(ai_model="nobody-knows"), settings)
    assert request_messages([message("system", "$& x")], rules) == [{"role": "user", "content": sent}]


def test_nothing_to_send_raises_in_strict_mode_where_the_first_message_is_looked_at():
    assert reformat([], {"hasFirstSystemPrompt"}, warn=lambda _: None) == []
    with pytest.raises(RequestFormatError):
        reformat([], {"hasFirstSystemPrompt"}, strict=True)
    assert reformat([], {"hasFullSystemPrompt"}, strict=True) == []


def test_an_empty_list_starts_with_the_user_where_it_must():
    assert pairs(reformat([], {"mustStartWithUserInput"})) == [("user", " ")]


def test_the_last_message_of_the_assistant_is_a_prefix_for_deepseek():
    rules = RequestRules(flags=frozenset({"hasFullSystemPrompt", "deepSeekPrefix", "deepSeekThinkingInput"}))
    found = request_messages([message("user", "u"), message("assistant", "a", thoughts=("t", "s"))], rules)
    assert found[-1] == {"role": "assistant", "content": "a", "prefix": True, "reasoning_content": "t\ns"}


def test_rules_follow_the_settings():
    settings = Settings.from_json(
        {
            "newOAIHandle": False,
            "customModels": [{"id": "xcustom:::m", "format": 4, "flags": [6]}],
            "enableCustomFlags": False,
        }
    )
    rules = RequestRules.of(Preset(ai_model="xcustom:::m", system_role_replacement="assistant"), settings)
    assert rules.format == WireFormat.MISTRAL
    assert rules.flags == {"hasFullSystemPrompt"}
    assert rules.system_role == "assistant"
    assert not rules.new_openai_handle


def test_mistral_takes_functions_for_the_user_and_joins_what_comes_in_the_same_role():
    rules = RequestRules(flags=frozenset({"hasFullSystemPrompt"}), format=WireFormat.MISTRAL)
    given = [message("user", "a"), message("function", "b"), message("user", "c"), message("system", "d")]
    found = request_messages([*given, message("assistant", "e"), message("assistant", "f")], rules)
    assert [(each["role"], each["content"]) for each in found] == [
        ("user", "a"),
        ("user", "b\nc\nSystem:d"),
        ("assistant", "e\nf"),
    ]


def test_start_lines_are_blanked_only_by_the_new_handling():
    given = [new_chat_line(), message("user", "u", name="Ann")]
    assert request_messages(given, RequestRules(flags=frozenset({"hasFullSystemPrompt"}))) == [
        {"role": "user", "content": "u"}
    ]
    old = RequestRules(flags=frozenset({"hasFullSystemPrompt"}), new_openai_handle=False)
    assert len(request_messages(given, old)) == 2


def test_media_are_written_in_parts_and_keep_an_empty_message_alive():
    picture = {"type": "image", "url": "https://example.invalid/a.png"}
    found = request_messages([message("user", "", multimodals=(picture,))], RequestRules())
    written = {"url": "https://example.invalid/a.png", "detail": "low"}
    assert found == [{"role": "user", "content": [{"type": "image_url", "image_url": written}]}]


def test_replacement_patterns_act():
    assert replace_first("a{{slot}}b{{slot}}", "{{slot}}", "<$&|$$|$`|$'|$1>") == (
        "a<{{slot}}|$|a|b{{slot}}|$1>b{{slot}}"
    )
    assert replace_all("x-x", "x", "[$'$&]") == "[-xx]-[x]"
    assert replace_first("abc", "z", "$&") == "abc"


def test_names_are_written_by_the_prefix_format():
    form = OobaFormat(header="Top", user_prefix="U:", assistant_prefix="A:", separator="\n", use_name=True)
    given = [message("system", "S"), message("user", "u"), message("assistant", "a")]
    assert ooba_text(given, "Mira", user_name="Ann", format=form) == "Top\nS\nU: Ann: u\nA: Mira: a\nA:Mira:"


def test_a_message_with_a_name_is_written_with_it_and_an_empty_prefix_leaves_no_blank():
    form = OobaFormat(separator="\n", use_name=True)
    given = [message("user", "u", name="Bob"), message("assistant", "a"), message("user", "v")]
    assert ooba_text(given, "Mira", user_name="Ann", format=form) == "Bob: u\nMira: a\nAnn: v\nMira:"


def test_a_script_may_go_on_where_it_ended():
    assert chat_text([message("user", "u")], "Mira", continued=True) == "u"


@pytest.mark.parametrize("more", [0, 40])
@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("One. Ann: two. Bob: three", "One."),
        ("One. Bob： two. Ann: three", "One."),
        ("system note: one", ""),
        ("Mira: one", ""),
        (" one Mira :", " one Mira :"),
    ],
)
def test_a_reply_is_cut_at_the_first_speaker_however_many_there_are(reply: str, kept: str, more: int):
    given = [message("user", "u", name=name) for name in ("Bob", *(f"N{n}" for n in range(more)))]
    assert cut_reply(reply, given, "Mira", user_name="Ann") == kept


def test_the_prefix_format_is_read_and_written_with_risu_ais_keys():
    stored = {
        "header": "H",
        "systemPrefix": "S>",
        "userPrefix": "U ",
        "assistantPrefix": "A\n",
        "seperator": "|\n\n",
        "useName": True,
    }
    form = OobaFormat.from_json(stored)
    assert form.to_json() == stored
    given = [message("system", "s"), message("user", "u"), message("assistant", "a")]
    text = ooba_text(given, "Mira", user_name="Ann", format=form, suggesting=True)
    assert text.split("|\n\n") == ["H", "S>s", "A\nAnn: u", "U Mira: a", "A\nMira:"]


def test_a_reply_is_cut_at_any_speaker():
    given = [message("user", "u", name="Bob")]
    assert cut_reply("Well. Bob: no", given, "Mira", user_name="Ann") == "Well."
    assert cut_reply("Well, nobody", given, "", user_name="") == "Well, nobody"
