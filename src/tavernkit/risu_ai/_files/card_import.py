"""Imports and exports cards as RisuAI does, and converts them to its characters without storing assets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw, thaw_object
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character
from tavernkit.cards._limits import Limits
from tavernkit.cards._risu_ai import RISU_LIMITS, ImportedCard, import_file
from tavernkit.cards._risu_ai import export_charx as exported
from tavernkit.cards._risu_ai.character import from_card, from_off_spec
from tavernkit.cards._risum import Module
from tavernkit.cards._source import FileContent, file_type_of, read_file
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._lorebook.book import migrate_entries
from tavernkit.risu_ai._objects import RisuCharacter, made_id

_ASSET_LISTS = (("emotions", "emotionImages"), ("additionalAssets", "additionalAssets"))


def risu_character(value: object) -> RisuCharacter | None:
    """Make RisuAI's character from a card, a loaded file, RisuAI's own JSON, or None."""
    if value is None or isinstance(value, RisuCharacter):
        return value
    if isinstance(value, (Character, Bundle)):
        return character_from_card(value)
    if is_mapping(value):
        return RisuCharacter.from_json(value)
    raise ConfigError(
        f"character must be a Character, a loaded file, a RisuCharacter or RisuAI's JSON, not {type(value).__name__}"
    )


def character_from_card(card: Character | Bundle, module: Module | None = None) -> RisuCharacter:
    """Return RisuAI's character for a card or a loaded file. Its assets keep the addresses they have in the card.

    ``module`` is the one in a CHARX archive (a loaded file has it): its lore, scripts and triggers replace the card's.

    Args:
        card: A card, or a loaded card file.
        module: The module that comes with the card.
    """
    if isinstance(card, Bundle):
        card, module = card.character, card.module if module is None else module
    written = card.to_card()
    data = written.get("data")
    has_data = is_object(data) and card.version != "v1"
    character = _from_spec(written) if has_data else from_off_spec(written)
    if module is not None:
        character |= {"triggerscript": thaw(module.trigger), "customscript": thaw(module.regex)}
        if module.lorebook is not None:
            character["globalLore"] = thaw(module.lorebook)
    lore = character.get("globalLore")
    if isinstance(lore, list):  # as RisuAI does when the character is opened
        character["globalLore"] = [migrate_entries([each])[0] if is_object(each) else each for each in lore]
    character["chaId"] = made_id("card", card.name, card.creator)
    return RisuCharacter.from_json(character)


def _from_spec(written: JsonObject) -> JsonObject:
    fields = written.get("data")
    data: JsonObject = fields if is_object(fields) else {}
    stated = data.get("extensions")
    extensions: JsonObject = dict(stated) if is_object(stated) else {}
    own = extensions.get("risuai")
    risuai: JsonObject = dict(own) if is_object(own) else {}
    lists = {key: risuai.pop(key, None) for key, _ in _ASSET_LISTS}
    extensions["risuai"] = risuai
    assets = data.get("assets")
    bare: JsonObject = {**written, "data": {**data, "extensions": extensions, "assets": []}}
    character = from_card(bare, {}, lambda _, name: name)
    character |= {name: lists[key] for key, name in _ASSET_LISTS if isinstance(lists[key], list)}
    if isinstance(assets, list):
        _add_assets(character, assets)
    depth = extensions.get("depth_prompt")
    if is_object(depth):
        character["depth_prompt"] = depth
    return character


def _add_assets(character: JsonObject, assets: list[Json]) -> None:
    emotions: list[Json] = []
    additional: list[Json] = []
    for asset in assets:
        if not is_object(asset):
            continue
        name, uri, kind = asset.get("name", ""), asset.get("uri", ""), asset.get("type")
        if kind == "emotion":
            emotions.append([name, uri])
        elif kind == "x-risu-asset":
            additional.append([name, uri, asset.get("ext", "")])
        elif kind == "icon" and name == "main":
            character["image"] = uri
    character |= {"emotionImages": emotions, "additionalAssets": additional}


def import_card(source: FileContent, *, file_type: str = "", limits: Limits = RISU_LIMITS) -> ImportedCard:
    """Import a card as RisuAI does: the character that it keeps, and the assets that it stores.

    To read a card for prompts, use ``tavernkit.load()``, which repairs more and keeps what RisuAI drops.

    Args:
        source: The file: its path or its content.
        file_type: ``png``, ``json``, ``charx``, ``jpg`` or ``jpeg``; by default, the ending of the path.
        limits: Limits on sizes, by default close to RisuAI's own.

    Raises:
        InvalidCardError: RisuAI refuses the file, or fails on it.
        FileFormatError: The file cannot be read, or exceeds a limit.
    """
    content = read_file(source, limits.max_file_bytes, limit="max_file_bytes")
    return import_file(f"card.{file_type_of(source, file_type)}", content, limits=limits)


def export_charx(character: RisuCharacter, read_asset: Callable[[str], bytes], *, now: datetime | None = None) -> bytes:
    """Write a character as the CHARX file that RisuAI exports.

    Args:
        character: The character.
        read_asset: Returns the content of an asset, by the path that the character has for it.
        now: The time of the export; by default, the current time.
    """
    return exported(thaw_object(character.raw), read_asset, now=int((now or datetime.now(UTC)).timestamp()))
