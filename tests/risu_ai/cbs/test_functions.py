"""Functions where the vectors do not look: odd contexts, far dates, other locales."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.blocks import unescape
from tavernkit.risu_ai._cbs.context import CBSContext, RisuDevice
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._models import model_info
from tavernkit.risu_ai._objects import (
    RisuCharacter,
    RisuChat,
    RisuCustomModel,
    RisuMessage,
    RisuModule,
    RisuPersona,
    RisuSettings,
)

ENGINE = CBSEngine()
NOW = datetime(2024, 3, 7, 5, 4, 5, tzinfo=UTC)


def expand(text: str, context: CBSContext | None = None) -> str:
    return ENGINE.expand(text, context or CBSContext(char="Bel", clock=lambda: NOW), warn=lambda _: None)


def device(zone: str = "UTC", locale: str = "en-US") -> CBSContext:
    return CBSContext(char="Bel", clock=lambda: NOW, device=RisuDevice(timezone=ZoneInfo(zone), locale=locale))


class TestTime:
    def test_a_naive_clock_is_utc(self) -> None:
        context = CBSContext(clock=lambda: NOW.replace(tzinfo=None))
        assert expand("{{isotime}} {{unixtime}}", context) == "5:4:5 1709787845"

    def test_local_time_follows_the_zone_of_the_device(self) -> None:
        assert expand("{{time}} {{date}}", device("America/New_York")) == "0:4:5 2024-3-7"

    @pytest.mark.parametrize(
        ("microseconds", "written"),
        [
            ("400000000000000000", "14645-06-30 15:06:40 Mon"),
            ("-62000000000000000", "5-04-19 09:46:40 Tue"),
            ("-99000000000000000", "-1168-10-24 16:00:00 Sun"),
            ("8640000000000000000", "275760-09-13 00:00:00 Sat"),
        ],
    )
    def test_dates_beyond_pythons_are_written(self, microseconds: str, written: str) -> None:
        assert expand(f"{{{{date::YYYY-MM-DD HH:mm:ss ddd::{microseconds}}}}}") == written

    def test_a_date_javascript_does_not_have_is_kept(self) -> None:
        assert expand("{{date::YYYY::8640000000000001000}}") == "{{date::YYYY::8640000000000001000}}"

    def test_far_dates_borrow_the_rules_of_the_zone(self) -> None:
        summer = "{{date::HH::398770000000000000}}"
        assert int(expand(summer, device("Asia/Seoul"))) == (int(expand(summer)) + 9) % 24

    def test_dates_before_all_rules_have_the_local_mean_time_of_the_zone(self) -> None:
        before_christ = "{{date::YYYY HH:mm:ss DDDD::-99000000000000000}}"
        assert expand(before_christ, device("Asia/Seoul")) == "-1168 00:27:52 299"

    @pytest.mark.parametrize(
        ("locale", "written"),
        [
            ("en-AU", "1:42:05 pm 06/03/2024"),
            ("fr-FR", "13:42:05 06/03/2024"),
            ("zh-TW", "下午1:42:05 2024/3/6"),
            ("zh-HK", "下午1:42:05 6/3/2024"),
            ("en-IN", "1:42:05 pm 6/3/2024"),
            ("es-MX", "1:42:05 p.m. 6/3/2024"),
            ("uk-UA", "13:42:05 06.03.2024"),
            ("id-ID", "13.42.05 6/3/2024"),
            ("cs-CZ", "13:42:05 6. 3. 2024"),
            ("it-IT", "13:42:05 06/03/2024"),
            ("en-NZ", "1:42:05 pm 6/03/2024"),
            ("fr-CA", "13 h 42 min 05 s 2024-03-06"),
            ("no", "13:42:05 6.3.2024"),
            ("hr-HR", "13:42:05 06. 03. 2024."),
            ("xx-YY", "1:42:05 PM 3/6/2024"),
        ],
    )
    def test_messages_are_dated_as_the_language_does(self, locale: str, written: str) -> None:
        time = datetime(2024, 3, 6, 13, 42, 5, tzinfo=UTC).timestamp() * 1000
        chat = RisuChat(messages=(RisuMessage(role="user", data="x", time=time),))
        assert (
            expand("{{messagetime}} {{messagedate}}", device(locale=locale).replace(chat=chat, chat_index=0)) == written
        )

    def test_an_infinite_message_time_does_no_harm(self) -> None:
        chat = RisuChat(messages=(RisuMessage(role="user", data="x", time=float("inf")),))
        context = device().replace(chat=chat, chat_index=0)
        assert expand("{{messagetime}}{{idleduration}}", context) == "{{messagetime}}{{idleduration}}"


class TestContextFunctions:
    def test_a_bound_persona_replaces_the_user(self) -> None:
        persona = RisuPersona(id="p", name="Mia", prompt="I am {{user}}.")
        context = CBSContext(char="Bel", user="Ann", personas=(persona,), chat=RisuChat(bound_persona="p"))
        assert expand("{{user}}: {{persona}}", context) == "Mia: I am Mia."
        assert expand("{{user}}", context.replace(personas=())) == "Ann"

    def test_the_last_member_speaks_for_a_group(self) -> None:
        members = (RisuCharacter(name="One", id="1", description="first"), RisuCharacter(name="Two", id="2"))
        group = RisuCharacter(name="Party", is_group=True)
        chat = RisuChat(messages=(RisuMessage(role="char", data="hi", saying="1"),))
        context = CBSContext(char=group, speaker=group, characters=members, chat=chat)
        assert expand("{{char}}: {{description}}", context) == "One: first"
        assert expand("{{char}}", context.replace(chat=RisuChat())) == "bot"

    def test_a_group_that_is_not_selected_speaks_from_its_own_chat(self) -> None:
        one, two = RisuCharacter(name="One", id="1"), RisuCharacter(name="Two", id="2", description="second")
        said = {"message": [{"role": "char", "data": "hi", "saying": "2"}]}
        group = RisuCharacter.from_json({"type": "group", "chaId": "g", "chatPage": 1, "chats": [{}, said]})
        chat = RisuChat(messages=(RisuMessage(role="char", data="hi", saying="1"),))
        context = CBSContext(char=one, speaker=group, characters=(one, two), chat=chat)
        assert expand("{{description}}", context) == "second"
        assert expand("{{char}}", context.replace(char=group)) == "One"

    def test_toggles_come_from_the_context_unless_the_store_has_them(self) -> None:
        context = CBSContext(char="Bel", toggles={"nsfw": "1", "mode": 2})
        text = "{{#when::toggle::nsfw}}on{{/when}} {{getglobalvar::toggle_mode}}"
        assert expand(text, context) == "on 2"
        context.variables.set("toggle_nsfw", "0", "global")
        assert expand(text, context) == " 2"

    def test_default_variables_are_read_and_never_stored(self) -> None:
        character = RisuCharacter(name="Bel", default_variables="hp=10=x\nhp=20\n=1\nempty=")
        settings = RisuSettings(template_default_variables="hp=30\nmp=5")
        context = CBSContext(char=character, settings=settings)
        assert expand("{{getvar::hp}} {{getvar::mp}} {{getvar::empty}}", context) == "10 5 null"
        assert not context.has_var("hp")

    def test_modules_are_enabled_from_every_side(self) -> None:
        modules = tuple(RisuModule(id=name, namespace=f"ns-{name}") for name in "abcde")
        context = CBSContext(
            char=RisuCharacter(name="Bel", modules=("ns-c",)),
            chat=RisuChat(modules=("b",)),
            settings=RisuSettings(modules=modules, enabled_modules=("a",), integrated_modules=("d",)),
        )
        assert [module.id for module in context.enabled_modules] == ["a", "b", "c", "d"]
        assert expand("{{moduleenabled::ns-c}}{{moduleenabled::ns-e}}{{moduleenabled::a}}", context) == "100"

    def test_without_a_character_the_rest_still_answers(self) -> None:
        assert expand("{{user}} {{char}} {{getvar::a}}", CBSContext()) == "User {{char}} null"

    def test_the_device_answers(self) -> None:
        context = CBSContext(device=RisuDevice(screen_width=390, screen_height=844, platform="node", locale="ko-KR"))
        text = "{{screenwidth}}x{{screenheight}} {{metadata::risutype}} {{metadata::node}} {{metadata::browserlang}}"
        assert expand(text, context) == "390x844 node 1 ko-KR"

    def test_dice_come_from_the_context(self) -> None:
        assert expand("{{roll::2d6}}{{random::a::b}}", CBSContext(char="Bel", random=lambda: 0.99)) == "12b"
        texts = {expand("{{roll::10d100}}", CBSContext(char="Bel")) for _ in range(3)}
        assert len(texts) == 1


@pytest.mark.parametrize(
    ("tag", "result"),
    [
        ('filter::["a","b","a","","c","b",""]', '["a","b","c"]'),
        ('filter::["a","b","a","","c",""]::unique', '["a","b","","c"]'),
        ('filter::["b","","b"]::nonempty', '["b","b"]'),
        ("filter::[1,true,1,[1],[1],null,null]", "[1,true,[1],[1],null]"),
    ],
)
def test_filters_keep_the_first_of_equal_items_in_place(tag: str, result: str) -> None:
    assert expand(f"{{{{{tag}}}}}") == result


class TestModels:
    def test_a_custom_model_is_known_by_its_entry(self) -> None:
        mine = RisuCustomModel(id="xcustom:::1", name="Mine", internal_id="my-model", format=3, tokenizer=5)
        assert model_info("xcustom:::1", (mine,)) == ("Mine", "Mine", "my-model", 3, 4, 5)
        assert model_info("xcustom:::2", (mine,)).internal_id == "xcustom:::2"

    def test_prefixes_name_the_model_behind_them(self) -> None:
        assert model_info("hf:::org/model") == ("org/model", "org/model", "org/model", 10, 9, 12)
        assert model_info("horde:::x").format == 16


def test_escaped_characters_come_back_before_sending() -> None:
    assert unescape(expand("{{#escape}}{a}(b){{/escape}}{{<}}{{;}}")) == "{a}(b)&lt;;"
    assert unescape("plain") == "plain"


def test_the_hash_of_a_word_is_the_same_for_all_indexes_modulo_1000() -> None:
    assert pick_hash_rand(1007, "word") == pick_hash_rand(7, "word")
    assert pick_hash_rand(-5, "word") == pick_hash_rand(0, "word") == pick_hash_rand(1000, "word")


def test_a_fixed_offset_is_a_time_zone_too() -> None:
    context = CBSContext(clock=lambda: NOW, device=RisuDevice(timezone=timezone(timedelta(hours=5, minutes=30))))
    assert expand("{{time}}", context) == "10:34:5"


@pytest.mark.parametrize(
    ("base", "exponent", "shown"),
    [
        ("1.1", "4", "1.4641000000000004"),
        ("45.34379243850708", "2", "2056.0595127064116"),
        ("0.033527505397796635", "0.5", "0.18310517578101562"),
        ("-29.76556420326233", "2", "885.9888123385317"),
    ],
)
def test_powers_have_the_digits_that_chromium_gives(base: str, exponent: str, shown: str) -> None:
    assert expand(f"{{{{pow::{base}::{exponent}}}}} {{{{? {base}^{exponent}}}}}") == f"{shown} {shown}"
