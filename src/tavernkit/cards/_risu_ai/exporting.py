"""Exports RisuAI's character object as a CHARX archive, as RisuAI does."""

from __future__ import annotations

import io
import posixpath
import re
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_string, utf16_slice
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw, thaw_object
from tavernkit.cards._charx import CARD, MODULE, write_member
from tavernkit.cards._json_text import dump_json
from tavernkit.cards._placement import free_path, kind_of
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai.character import TEXT_FIELDS, book_from_lorebook
from tavernkit.cards._risum import Module, write_risum

MAX_NAME = 100
"""How many characters of an asset's name go into its path."""

ReadAsset = Callable[[str], bytes]
"""Returns the bytes of a stored asset by its path."""

_FOLDERS = ("emotion", "background", "user_icon", "icon")
_UNUSABLE = re.compile(r'[<>:"\\|?*\x00-\x1f]')
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_TRAILING = re.compile(r"(?<![. ])[. ]++\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\Z", re.IGNORECASE)

_RISUAI_DEFAULTS: tuple[tuple[str, Json], ...] = (
    ("bias", []),
    ("viewScreen", "none"),
    ("utilityBot", False),
    ("additionalText", ""),
    ("lowLevelAccess", False),
    ("defaultVariables", ""),
    ("prebuiltAssetCommand", ""),
    ("prebuiltAssetExclude", []),
    ("prebuiltAssetStyle", ""),
)
_RISUAI_OPTIONAL = (
    "sdData",
    "backgroundHTML",
    "license",
    "private",
    "largePortrait",
    "lorePlus",
    "inlayViewScreen",
    "newGenData",
)


@dataclass(slots=True)
class _Archive:
    """An archive in which every name is usable and unique."""

    file: zipfile.ZipFile
    names: dict[str, int] = field(default_factory=dict[str, int])

    def write(self, name: str, data: bytes, method: int = zipfile.ZIP_STORED) -> None:
        # RisuAI does not change the uri in the card, so it does not find such an asset when it imports the file.
        name = _HALF_CHARACTER.sub("\ufffd", _UNUSABLE.sub("_", name))
        name = _TRAILING.sub("", name)
        name = f"_{name}" if _RESERVED.match(name) else name
        write_member(self.file, free_path(name, self.names), data, method)


def export_charx(
    character: Mapping[str, object], read_asset: ReadAsset, *, now: int, new_id: Callable[[], str] | None = None
) -> bytes:
    """Write RisuAI's character as a CHARX archive; ``now`` is the time in seconds."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        archive = _Archive(file)
        listed: list[Json] = []
        paths: dict[str, int] = {}
        for asset in _assets(character):
            path = free_path(_path(asset), paths)
            stem = posixpath.splitext(path.split("/", 3)[3])[0]
            archive.write(f"x_meta/{stem}.json", b"{}", zipfile.ZIP_DEFLATED)
            archive.write(path, read_asset(asset.source) if asset.source else placeholder_png())
            listed.append({"type": asset.type, "uri": f"embeded://{path}", "name": asset.name, "ext": asset.ext})
        archive.write(MODULE, _module(character, (new_id or _uuid)()))
        archive.write(CARD, dump_json(card_of(character, listed, now)).encode())
    return out.getvalue()


def _uuid() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class _Listed:
    type: str
    name: str
    ext: str
    source: str


def _assets(character: Mapping[str, object]) -> Iterator[_Listed]:
    for item in _lists(character.get("additionalAssets")):
        yield _Listed("x-risu-asset", item[0], (*item, "", "unknown")[2] or "unknown", item[1])
    for item in _lists(character.get("emotionImages")):
        yield _Listed("emotion", item[0], "png", item[1])
    others = character.get("ccAssets")
    for asset in others if is_sequence(others) else ():
        if is_mapping(asset):
            texts = [to_string(asset.get(key) or "") for key in ("type", "name", "ext", "uri")]
            yield _Listed(texts[0], texts[1], texts[2] or "unknown", texts[3])
    yield _Listed("icon", "main", "png", to_string(character.get("image") or ""))


def _lists(value: object) -> Iterator[list[str]]:
    for item in value if is_sequence(value) else ():
        if is_sequence(item) and len(item) > 1:
            yield [to_string(part) for part in item]


def _path(asset: _Listed) -> str:
    folder = asset.type if asset.type in _FOLDERS else "other"
    name = utf16_slice(asset.name, 0, MAX_NAME)
    if asset.ext == "unknown":
        return f"assets/{folder}/image/{name}.png"
    return f"assets/{folder}/{kind_of(asset.ext)}/{name}.{asset.ext}"


def _module(character: Mapping[str, object], identifier: str) -> bytes:
    name = to_string(character.get("name"))
    content: JsonObject = {
        "name": f"{name} Module",
        "description": f"Module for {name}",
        "id": identifier,
        "trigger": _list(character.get("triggerscript")),
        "regex": _list(character.get("customscript")),
        "lorebook": _list(character.get("globalLore")),  # it stays in the card, too
        "assets": [],
    }
    out = io.BytesIO()
    write_risum(out, Module.from_json(content))
    return out.getvalue()


def _list(value: object) -> Json:
    return thaw(value) if is_sequence(value) else []


def card_of(character: Mapping[str, object], assets: list[Json], now: int) -> JsonObject:
    """The V3 card of a character; scripts and triggers are in the module next to it."""
    data: JsonObject = {source: _present(character.get(key), "") for key, source in TEXT_FIELDS if key != "creator"}
    # Creator and version come from what RisuAI keeps of an imported card, not from the character's own fields.
    additional = character.get("additionalData")
    stated: Mapping[str, object] = additional if is_mapping(additional) else {}
    lore = character.get("globalLore")
    settings = character.get("loreSettings")
    data |= {
        "alternate_greetings": _list(character.get("alternateGreetings")),
        "character_book": book_from_lorebook(
            [item for item in (lore if is_sequence(lore) else ()) if is_mapping(item)],
            settings if is_mapping(settings) else None,
            character.get("loreExt"),
        ),
        "tags": _list(character.get("tags")),
        "creator": _present(stated.get("creator"), ""),
        "character_version": to_string(stated.get("character_version", UNDEFINED)),
        "extensions": _extensions(character),
        "group_only_greetings": _list(character.get("group_only_greetings")),
        "nickname": _present(character.get("nickname"), ""),
        "source": _list(character.get("source")),
        "creation_date": _present(character.get("creation_date"), 0),
        "modification_date": now,
        "assets": assets,
    }
    return {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}


def _extensions(character: Mapping[str, object]) -> JsonObject:
    others = character.get("extentions")
    extensions: JsonObject = thaw_object(others) if is_mapping(others) else {}
    risuai: JsonObject = {key: _present(character.get(key), default) for key, default in _RISUAI_DEFAULTS}
    risuai |= {key: thaw(character[key]) for key in _RISUAI_OPTIONAL if character.get(key) is not None}
    extensions["risuai"] = risuai | {"virtualscript": "", "vits": {}}
    if character.get("depth_prompt") is not None:
        extensions["depth_prompt"] = thaw(character["depth_prompt"])
    return extensions


def _present(value: object, otherwise: Json) -> Json:
    return thaw(otherwise) if value is None else thaw(value)
