"""Pictures and texts that go with the user's message."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tavernkit.cards import Character
from tavernkit.conversation import Conversation
from tavernkit.dialects import Attachment
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import Preset as RisuPreset
from tavernkit.silly_tavern import Preset
from tavernkit.testing import ScriptedModel, streamed

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
ENCODED = base64.b64encode(PICTURE).decode()
ARIA = Character(name="Aria", first_mes="Hello.")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "lamp.png"
    path.write_bytes(PICTURE)
    return path


def preset(platform: str) -> Preset | RisuPreset:
    if platform == "risu_ai":
        return RisuPreset(ai_model="gpt4o")
    return Preset.default().replace(media_inlining=True).with_model("gpt-4o")


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_picture_is_sent_and_kept(tmp_path: Path, picture: Path, platform) -> None:
    path = tmp_path / ("a.jsonl" if platform == "silly_tavern" else "a.json")
    model = ScriptedModel("A lamp.", streamed("Bright."))
    chat = Conversation.open(path, card=ARIA, user="Ann", preset=preset(platform), model=model, platform=platform)
    await chat.send("What is this?", attachments=[picture])
    assert ENCODED in json.dumps(model.requests[0]["messages"])
    again = Conversation.open(path, card=ARIA, user="Ann", preset=preset(platform), model=model, platform=platform)
    async for _ in again.stream("And this?", attachments=[Attachment.image(data=PICTURE + b"x", name="b.png")]):
        pass
    assert ENCODED in json.dumps(model.requests[1]["messages"])
    assert base64.b64encode(PICTURE + b"x").decode() in json.dumps(model.requests[1]["messages"])
    assert "What is this?" in json.dumps(again.lines)


async def test_the_text_of_a_file_stands_before_the_message(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The lamp is lit at dusk.")
    model = ScriptedModel("I see.")
    chat = Conversation.open(card=ARIA, user="Ann", model=model)
    await chat.send("Read this, {{user}}.", attachments=[note])
    assert "The lamp is lit at dusk.\\n\\nRead this, Ann." in json.dumps(model.requests[0]["messages"])
    with pytest.raises(ConfigError, match="attach its text instead"):
        await chat.send("And this", attachments=[Attachment.file(data=b"%PDF", name="a.pdf")])


async def test_attachments_belong_to_messages(tmp_path: Path, picture: Path) -> None:
    chat = Conversation.open(card=ARIA, user="Ann", model=ScriptedModel("Hm."))
    with pytest.raises(ConfigError, match="not with 'regenerate'"):
        async for _ in chat.stream(kind="regenerate", attachments=[picture]):
            pass
    with pytest.raises(ConfigError, match="attachments"):
        await chat.send("Hi", attachments=[3])  # pyright: ignore[reportArgumentType]
    risu = Conversation.open(card=ARIA, model=ScriptedModel("Hm."), platform="risu_ai")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ConfigError, match="images, audio and video"):
        await risu.send("Hi", attachments=[tmp_path / "a.txt"])
