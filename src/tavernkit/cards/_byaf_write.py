"""Writes BYAF: a card split into Backyard's character and scenarios."""

from __future__ import annotations

import posixpath
import zipfile
from typing import BinaryIO

from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.cards._assets import Asset
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._byaf import (
    KEPT_CARD,
    MANIFEST,
    card_data,
    example_messages,
    fingerprint,
    first_message,
    from_backyard,
    split_keys,
    text_of,
    to_backyard,
)
from tavernkit.cards._character import Character
from tavernkit.cards._charx import write_member
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._placement import add_entries, archive_paths, archive_places, own_assets, put_places
from tavernkit.errors import Warn

_CHARACTER = "characters/character1/character.json"
_START = "<START>"


def write_byaf(out: BinaryIO, bundle: Bundle, character: Character, warn: Warn) -> None:
    """Write a Backyard archive. The character file also contains the whole card, so that we can read it back."""
    manifest = _old_json(bundle, MANIFEST)
    listed = manifest.get("characters")
    path = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else _CHARACTER
    old = _old_json(bundle, path)
    scenarios = _scenarios(bundle, character, warn)
    old_paths = manifest.get("scenarios")
    paths = [each for each in old_paths if isinstance(each, str)] if isinstance(old_paths, list) else []
    paths += [f"scenarios/scenario{index + 1}.json" for index in range(len(paths), len(scenarios))]
    pictures = _picture_paths(bundle, posixpath.dirname(path))
    _put_author(manifest, character)
    manifest = {"schemaVersion": 1} | manifest | {"characters": [path], "scenarios": [*paths[: len(scenarios)]]}
    own = _character(old, character, pictures, posixpath.dirname(path), warn)
    data = card_data(manifest, own, scenarios)
    card = character.to_card()
    put_places(card, archive_places(pictures))
    new = {id(asset): path for path, asset in pictures.items() if not asset.uri and not asset.path}
    listed = [asset for asset in bundle.assets if id(asset) in new]
    add_entries(card, listed, lambda asset: f"embeded://{new[id(asset)]}", warn)
    own[KEPT_CARD] = {"card": card, "fields": fingerprint(data)}
    with zipfile.ZipFile(out, "w") as archive:
        members = {MANIFEST: manifest, path: own} | dict(zip(paths, scenarios, strict=False))
        for name, content in members.items():
            write_member(archive, name, dump_json(content, indent=2).encode(), zipfile.ZIP_DEFLATED)
        for name, asset in pictures.items():
            write_member(archive, name, asset.read(), zipfile.ZIP_STORED)
        for file in bundle.files:
            if file.type == "file" and file.path not in members and file.path not in pictures:
                write_member(archive, file.path, file.read(), zipfile.ZIP_DEFLATED)


def _old_json(bundle: Bundle, path: str) -> JsonObject:
    file = next((file for file in bundle.files if file.type == "byaf" and file.path.endswith(path)), None)
    value = parse_json(file.read(), what=path, warn=ignore) if file is not None else {}
    return value if is_object(value) else {}


def _put_author(manifest: JsonObject, character: Character) -> None:
    old = manifest.get("author")
    author: JsonObject = old if is_object(old) else {}
    for key, value in (("name", character.creator), ("backyardURL", character.creator_notes)):
        if text_of(author.get(key)) != value:
            author[key] = value
    if author:
        manifest["author"] = author


def _character(
    old: JsonObject, character: Character, pictures: dict[str, Asset], folder: str, warn: Warn
) -> JsonObject:
    own: JsonObject = old.copy()
    display_name = character.extensions.get("display_name")
    own["name"] = character.name
    own["displayName"] = display_name if isinstance(display_name, str) else character.name
    _put_text(own, "persona", character.description, "description", warn)
    own["isNSFW"] = any(tag.lower() == "nsfw" for tag in character.tags)
    lore = old.get("loreItems")
    own["loreItems"] = _lore(lore if isinstance(lore, list) else [], character, warn)
    listed = old.get("images")
    images = {
        text_of(image.get("path")): image for image in (listed if isinstance(listed, list) else []) if is_object(image)
    }
    icons: list[Json] = []
    for path, asset in pictures.items():
        if asset.type == "icon":
            relative = posixpath.relpath(path, folder or ".")
            icons.append(images.get(relative, {"path": relative, "label": asset.name}))
    own["images"] = icons
    return own


def _lore(old: list[Json], character: Character, warn: Warn) -> list[Json]:
    items: list[Json] = []
    entries = character.character_book.entries if character.character_book else ()
    for index, entry in enumerate(entries):
        before = old[index] if index < len(old) else None
        item: JsonObject = thaw_object(before) if is_mapping(before) else {}
        if tuple(split_keys(from_backyard(text_of(item.get("key"))))) != entry.keys:
            item["key"] = to_backyard(", ".join(entry.keys), f"lore entry {index}", warn)
        _put_text(item, "value", entry.content, f"lore entry {index}", warn)
        items.append(item)
    return items


def _scenarios(bundle: Bundle, character: Character, warn: Warn) -> list[JsonObject]:
    scenarios = [thaw_object(scenario) for scenario in bundle.scenarios] or [{}]
    first = scenarios[0]
    _put_text(first, "narrative", character.scenario, "scenario", warn)
    _put_text(first, "formattingInstructions", character.system_prompt, "system_prompt", warn)
    _put_first_message(first, character.first_mes, "first_mes", warn)
    if example_messages(first) != character.mes_example:
        parts = [part.strip("\n") for part in character.mes_example.split(_START)]
        texts = [to_backyard(part, "mes_example", warn) for part in parts if part.strip()]
        first["exampleMessages"] = [{"characterID": "", "text": text} for text in texts]
    greetings = {from_backyard(first_message(scenario)) for scenario in scenarios[1:]}
    for index, greeting in enumerate(character.alternate_greetings):
        if greeting not in greetings:
            scenario: JsonObject = {"title": f"Greeting {index + 2}"}
            _put_first_message(scenario, greeting, f"alternate_greetings/{index}", warn)
            scenarios.append(scenario)
    return scenarios


def _put_text(target: JsonObject, key: str, text: str, where: str, warn: Warn) -> None:
    if key not in target or from_backyard(text_of(target[key])) != text:
        target[key] = to_backyard(text, where, warn)


def _put_first_message(scenario: JsonObject, text: str, where: str, warn: Warn) -> None:
    if from_backyard(first_message(scenario)) == text and ("firstMessages" in scenario or not text):
        return
    messages = scenario.get("firstMessages")
    rest: list[Json] = messages[1:] if isinstance(messages, list) else []
    scenario["firstMessages"] = [{"characterID": "", "text": to_backyard(text, where, warn)}, *rest]


def _picture_paths(bundle: Bundle, folder: str) -> dict[str, Asset]:
    paths = archive_paths(own_assets(bundle.assets))
    image = bundle.image
    if image is not None and image.available and not any(image.same_as(asset) for asset in paths.values()):
        paths[posixpath.join(folder, "images", f"main.{image.ext or 'png'}")] = image
    return paths
