"""The display stage where the vectors do not look."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.media import MediaSettings, ShownInlay, replace_assets, replace_inlays
from tavernkit.risu_ai._objects import Asset, RisuCharacter, RisuChat, RisuModule, RisuPersona, RisuSettings

ROOM = Asset("room", "room.png", "png")


def show(text: str, context: CBSContext, settings: MediaSettings | None = None) -> str:
    return replace_assets(text, context, lambda path: f"/{path}", settings=settings)


def context(*assets: Asset) -> CBSContext:
    return CBSContext(char=RisuCharacter(name="Bel", assets=assets, image="bel.png"))


def test_assets_of_enabled_modules_are_found_after_the_characters_own() -> None:
    module = RisuModule(id="m", assets=(Asset("Room", "other.png", "png"), Asset("corridor", "c.png", "png")))
    settings = RisuSettings(modules=(module,), enabled_modules=("m",))
    assert show("{{raw::room}} {{raw::corridor}}", context(ROOM).replace(settings=settings)) == "/room.png /c.png"
    assert show("{{raw::corridor}}", context(ROOM).replace(settings=RisuSettings(modules=(module,)))) == ""


def test_a_module_asset_is_never_the_closest_match() -> None:
    module = RisuModule(id="m", assets=(Asset("hall", "hall.png", "png"),))
    settings = RisuSettings(modules=(module,), enabled_modules=("m",))
    assert show("{{raw::hal}}", context().replace(settings=settings)) == ""


def test_the_first_of_equally_close_names_wins() -> None:
    assert show("{{raw::rooma}}", context(Asset("roomb", "b"), Asset("roomc", "c"), Asset("room", "d"))) == "/b"


def test_the_bound_persona_lends_its_icon() -> None:
    where = context().replace(chat=RisuChat(bound_persona="p"), personas=(RisuPersona(id="p", icon="mia.png"),))
    settings = MediaSettings(user_icon="ann.png")
    assert show("{{source::user}} {{source::CHAR}}", where, settings) == "/mia.png /bel.png"
    assert show("{{source::user}}", context(), settings) == "/ann.png"


def test_groups_and_missing_characters_keep_their_tags() -> None:
    for where in (CBSContext(), CBSContext(char=RisuCharacter(name="g", is_group=True))):
        assert show("{{raw::room}}", where) == "{{raw::room}}"


def test_very_long_names_are_not_compared() -> None:
    assert show("{{raw::" + "r" * 1000 + "}}", context(ROOM), MediaSettings(max_difference=2000)) == ""


def test_many_unclosed_tags_take_no_time() -> None:
    text = "{{raw::" * 20_000
    assert show(text, context(ROOM)) == text
    assert replace_inlays(text.replace("raw", "inlay"), {}) == text.replace("raw", "inlay")


def test_an_inlay_id_stays_on_its_line() -> None:
    inlays = {"a\nb": ShownInlay("image", "u")}
    assert replace_inlays("{{inlay::a\nb}}", inlays) == "{{inlay::a\nb}}"


@pytest.mark.parametrize(
    ("extensions", "tag"), [("mp4 webm avi m4p m4v", "<video autoplay muted loop>"), ("png mp3 MP4", "<img src=")]
)
def test_the_extension_of_an_asset_decides_if_it_moves(extensions: str, tag: str) -> None:
    for extension in extensions.split():
        assert show("{{asset::a}}", context(Asset("a", "p", extension))).startswith(tag)


@pytest.mark.parametrize(
    ("extensions", "found"),
    [
        ("webp png jpg jpeg gif mp4 webm avi m4p m4v mp3 wav ogg", True),
        ("png.webp jpg.png ogg.wav", True),
        ("webp.png wav.ogg png.png svg", False),  # each is dropped once, in this order: the turn of one may be over
    ],
)
def test_names_are_compared_without_one_of_each_extension(extensions: str, found: bool) -> None:
    exact = MediaSettings(max_difference=0)
    for extension in extensions.split():
        assert (show(f"{{{{raw::ro_om.{extension}}}}}", context(ROOM), exact) != "") is found, extension
