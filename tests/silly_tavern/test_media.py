from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from tavernkit.silly_tavern import ChatMessage
from tavernkit.silly_tavern._chat.attachments import inline_media, picture_tokens, size_of_data_url
from tests.silly_tavern.scene import build, preset


def png(width: int, height: int) -> str:
    data = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return "data:image/png;base64," + base64.b64encode(data).decode()


def message(*items: dict[str, Any], **extra: Any) -> ChatMessage:
    return ChatMessage(mes="look", extra={"media": list(items), **extra})


def parts(line: ChatMessage, **keys: Any) -> list[Any]:
    found = inline_media(line, preset(**{"openai_model": "gpt-4o", **keys}), default_display="list", measure=None)
    return [(each.part["type"], each.tokens) for each in found or ()]


@pytest.mark.parametrize(
    ("size", "quality", "tokens"),
    [
        ((512, 512), "auto", 85),
        ((513, 400), "auto", 85 + 170 * 4),
        ((100, 100), "high", 85 + 170 * 4),
        ((4000, 4000), "low", 85),
        ((1024, 2048), "high", 85 + 170 * 6),
        (None, "high", 85),
        ((0, 1000), "high", 85),
        ((0, 0), "auto", 85),
    ],
)
def test_a_picture_costs_its_tiles(size: Any, quality: str, tokens: int):
    assert picture_tokens(size, quality) == tokens


def test_the_size_is_read_from_the_picture_itself():
    assert size_of_data_url(png(640, 480)) == (640, 480)
    gif = base64.b64encode(b"GIF89a" + struct.pack("<HH", 3, 4)).decode()
    assert size_of_data_url(f"data:image/gif;base64,{gif}") == (3, 4)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc0\x00\x11\x08" + struct.pack(">HH", 7, 9)
    assert size_of_data_url("data:image/jpeg;base64," + base64.b64encode(jpeg).decode()) == (9, 7)


@pytest.mark.parametrize(
    ("chunk", "size"),
    [
        (b"VP8 " + b"\x0a\0\0\0" + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 800 | 0x4000, 600), (800, 600)),
        (b"VP8L" + b"\x05\0\0\0" + b"\x2f" + struct.pack("<I", 799 | 599 << 14 | 1 << 28), (800, 600)),
        (b"VP8X" + b"\x0a\0\0\0" + b"\x10\0\0\0" + b"\x1f\x03\0" + b"\x57\x02\0", (800, 600)),
        (b"VP8X" + b"\x0a\0\0\0" + b"\x10\0\0\0", None),
        (b"VP8 ", None),
        (b"ALPH", None),
    ],
)
def test_the_size_of_a_webp_is_read_by_its_kind(chunk: bytes, size: tuple[int, int] | None):
    content = base64.b64encode(b"RIFF\0\0\0\0WEBP" + chunk).decode()
    assert size_of_data_url(f"data:image/webp;base64,{content}") == size


@pytest.mark.parametrize(
    "url", ["https://x/y.png", "data:image/png;base64,!!!", "data:,", "data:image/png;base64,iVBORw0KGgo="]
)
def test_an_unknown_size_is_no_error(url: str):
    assert size_of_data_url(url) is None


def test_pictures_are_inlined_for_models_that_see():
    assert parts(message({"type": "image", "url": png(9, 9)})) == [("image_url", 85)]
    assert parts(message({"type": "image", "url": png(9, 9)}), openai_model="gpt-4") == []
    assert parts(message({"type": "image", "url": png(9, 9)}), media_inlining=False) == []


def test_a_gallery_shows_only_the_chosen_picture():
    items = [{"type": "image", "url": png(9, 9)}, {"type": "image", "url": png(600, 600)}]
    assert len(parts(message(*items))) == 2
    assert parts(message(*items, media_display="gallery", media_index=1)) == [("image_url", 85 + 170 * 4)]


def test_video_goes_only_to_models_that_take_it():
    line = message({"type": "video", "url": "data:video/mp4;base64,AA", "duration": 2.5})
    assert parts(line) == []
    assert parts(line, chat_completion_source="makersuite", google_model="gemini-2.5-pro") == [("video_url", 3 * 263)]


def test_openrouters_list_says_which_media_a_model_takes():
    source = {"chat_completion_source": "openrouter", "openrouter_model": "a/b", "media_inlining": True}
    listed = [{"id": "a/b", "architecture": {"input_modalities": ["text", "image"]}}]
    items = [{"type": kind, "url": png(9, 9), "title": kind} for kind in ("image", "video")]
    line = {"name": "Mira", "is_user": True, "mes": "Look.", "extra": {"media": items}}

    def reasons(**changes: Any) -> list[str]:
        plan = build(preset=preset(**source), history=[line], **changes)
        sent = plan.messages[-1].attachments or ()
        left_out = [each for each in plan.omissions if each.kind == "attachment"]
        assert len(sent) + len(left_out) == (2 if changes else 1)  # both are left out for the same reason
        return [each.reason for each in left_out]

    assert "model_list=" in reasons()[0]
    assert reasons(model_list=listed) == ["a/b takes no video input, as far as SillyTavern knows"]
    assert reasons(model_list=[{"id": "a/b", "architecture": {"input_modalities": "image"}}, *listed])
    other = preset(chat_completion_source="mistralai", mistralai_model="pixtral", media_inlining=True)
    plan = build(preset=other, history=[line])
    assert [each.reason for each in plan.omissions if each.kind == "attachment"] == [
        "the list of models of mistralai, which says what a model takes, is not known"
    ]
