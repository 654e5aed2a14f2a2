from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tavernkit.cards._risum import rpack_encode
from tavernkit.errors import ConfigError, InvalidPresetError, LimitExceededError
from tavernkit.risu_ai import Preset, PromptSettings
from tavernkit.risu_ai._files.aes_gcm import SealBrokenError, seal, unseal
from tavernkit.risu_ai._files.message_pack import pack, unpack
from tavernkit.risu_ai._files.preset import preset_from_database
from tavernkit.risu_ai._files.preset_file import KEY, NONCE, read_preset
from tavernkit.risu_ai._limits import MAX_PRESET_BYTES
from tavernkit.risu_ai._prompt_template.cards import ChatCard, PlainCard
from tavernkit.risu_ai._requests.text_completion import OobaFormat

FILE = {
    "name": "Mine",
    "mainPrompt": "Main é 日本",
    "maxContext": 9000,
    "promptTemplate": [{"type": "plain", "type2": "main", "text": "T", "role": "system", "name": "first"}],
    "promptSettings": {"sendName": True, "maxThoughtTagDepth": 3},
    "ooba": {"formating": {"userPrefix": "U:"}, "seed": 5},
    "somethingElse": {"kept": [1, 2, None]},
    "proxyKey": "secret",
}


@pytest.mark.parametrize("ending", [".json", ".risupreset", ".risup"])
def test_a_preset_survives_every_format_but_for_its_secrets(tmp_path: Path, ending: str):
    path = tmp_path / f"mine{ending}"
    Preset.from_json(FILE).save(path)
    read = Preset.load(path)
    assert read.to_json() == {**FILE, "proxyKey": ""}
    assert read.main_prompt == "Main é 日本"
    assert read.prompt_settings.send_name


def test_a_changed_preset_writes_its_changes_and_nothing_else():
    changed = Preset.from_json(FILE).replace(
        max_context=10,
        prompt_template=(ChatCard(),),
        prompt_settings=PromptSettings(send_name=False),
        ooba_format=OobaFormat(user_prefix="V:"),
    )
    written = changed.to_json()
    assert written["maxContext"] == 10
    assert written["promptTemplate"] == [{"type": "chat", "rangeStart": 0, "rangeEnd": "end"}]
    assert written["somethingElse"] == FILE["somethingElse"]
    assert written["ooba"] == {"seed": 5, "formating": OobaFormat(user_prefix="V:").to_json()}


def test_a_preset_made_in_a_program_is_written_in_full():
    written = Preset(main_prompt="M", prompt_template=(PlainCard(text="x"),)).to_json()
    assert written["mainPrompt"] == "M"
    assert written["maxContext"] == 4000
    assert "jailbreak" not in written, "what RisuAI has a text of its own for is left to it"


def test_the_order_gets_the_persona_before_the_main_prompt():
    assert Preset.from_json({"formatingOrder": ["chats", "main"]}).formating_order == ("chats", "personaPrompt", "main")


def test_values_of_the_wrong_type_are_reported_and_replaced():
    warnings: list[str] = []
    read = Preset.from_json(
        {"name": 5, "maxContext": "many", "maxResponse": "250", "regex": 1, "promptTemplate": ["x", {"type": "new"}]},
        warn=warnings.append,
    )
    assert (read.name, read.max_context, read.max_response) == ("Default", 4000, 250)
    assert len(warnings) == 5
    assert read.to_json()["name"] == 5, "the file's own value is kept"


def test_legacy_and_deflated_files_are_read():
    sealed = seal(pack({"name": "Old"}), KEY, NONCE)
    packed = pack({"presetVersion": 0, "type": "preset", "pres": sealed})
    assert read_preset(gzip.compress(packed)).name == "Old"
    assert read_preset(zlib.compress(packed)).name == "Old"
    assert read_preset(rpack_encode(zlib.compress(packed))).name == "Old"
    bare = zlib.compress(packed, wbits=-zlib.MAX_WBITS)
    assert read_preset(bare).name == read_preset(rpack_encode(bare)).name == "Old"


def test_an_unknown_version_is_read_with_a_warning():
    warnings: list[str] = []
    packed = pack({"presetVersion": 9, "type": "preset", "preset": seal(pack({"name": "New"}), KEY, NONCE)})
    assert read_preset(gzip.compress(packed), warn=warnings.append).name == "New"
    assert "presetVersion 9" in warnings[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no json",
        b"[1]",
        gzip.compress(b"\xc1"),
        gzip.compress(pack({"type": "other"})),
        gzip.compress(pack({"type": "preset", "preset": 3})),
        gzip.compress(pack({"type": "preset", "preset": b"too short"})),
        gzip.compress(pack({"type": "preset", "preset": seal(pack([1]), KEY, NONCE)})),
        b"\x1f\x8b broken",
    ],
    ids=["empty", "text", "list", "no_pack", "other_type", "number", "too_short", "list_inside", "no_gzip"],
)
def test_what_is_no_preset_is_refused(data: bytes):
    with pytest.raises(InvalidPresetError):
        read_preset(data, warn=lambda _: None)


def test_files_that_are_too_large_or_inflate_too_far_are_refused():
    with pytest.raises(LimitExceededError):
        read_preset(b"{" * (MAX_PRESET_BYTES + 1))
    with pytest.raises(LimitExceededError):
        read_preset(gzip.compress(bytes(MAX_PRESET_BYTES + 1), compresslevel=1))


def test_an_unknown_ending_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"\.json, \.risupreset or \.risup"):
        Preset().save(tmp_path / "x.txt")


def test_novelai_parameters_are_reported():
    warnings: list[str] = []
    read_preset(json.dumps({"presetVersion": 3, "name": "NAI"}).encode(), warn=warnings.append)
    assert "NovelAI" in warnings[0]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 255, 1000])
def test_the_seal_is_aes_gcm(size: int):
    key, nonce, data = bytes(range(32)), bytes(range(12)), bytes(i * 7 % 256 for i in range(size))
    assert seal(data, key, nonce) == AESGCM(key).encrypt(nonce, data, None)
    assert unseal(seal(data, key, nonce), key, nonce) == data


def test_a_broken_seal_is_noticed():
    sealed = bytearray(seal(b"text", KEY, NONCE))
    sealed[0] ^= 1
    with pytest.raises(SealBrokenError):
        unseal(bytes(sealed), KEY, NONCE)


def test_undefined_values_of_a_packed_file_are_missing():
    assert unpack(b"\x82\xa1a\xd4\x00\x00\xa1b\x92\x01\xc7\x00\x00") == {"b": [1, None]}


def test_keys_of_a_stored_preset_have_one_order() -> None:
    own = {f"custom{number}": number for number in (7, 3, 9, 1, 8, 2)}
    database = {**own, "mainPrompt": "M", "jailbreak": "J", "globalNote": "N", "aiModel": "gpt4o", "maxContext": 4000}
    made = preset_from_database(database, {**own, "name": "Mine"})
    assert list(made) == [
        *("name", "mainPrompt", "jailbreak", "globalNote", "maxContext", "aiModel"),
        *own,
    ]
