"""BYAF: Backyard's archive of a character, its scenarios and pictures."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_object,
    is_sequence,
)
from tavernkit.cards._archive import Archive, Member, MemberSource, unsafe_part
from tavernkit.cards._assets import Asset, collect_assets
from tavernkit.cards._bundle import Bundle, Format
from tavernkit.cards._character import Character
from tavernkit.cards.errors import ByafError
from tavernkit.errors import FileFormatError, LimitExceededError, Warn

MANIFEST = "manifest.json"
KEPT_CARD = "characterCard"
"""The key in a character file under which we keep the whole card: Backyard's format cannot."""
_MACROS = (
    (re.compile(r"#\{user\}:", re.IGNORECASE), "{{user}}:"),
    (re.compile(r"#\{character\}:", re.IGNORECASE), "{{char}}:"),
    (re.compile(r"\{character\}(?!\})", re.IGNORECASE), "{{char}}"),
    (re.compile(r"\{user\}(?!\})", re.IGNORECASE), "{{user}}"),
)


def read_byaf(archive: Archive) -> Bundle:
    """Read a Backyard archive: its first character, all scenarios, and pictures on demand."""
    warn, limits = archive.warn, archive.limits
    parts = read_parts(archive, warn)
    data = card_data(parts.manifest, parts.character, parts.scenarios)
    character = _kept_character(parts, data, warn) or Character.from_card(
        {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}, warn=warn
    )

    pictures = tuple(_pictures(archive, parts, warn))
    icons = [picture.path for picture in pictures if picture.type == "icon"][:1]
    listed = collect_assets(character, archive.lookup, None, limits, warn)
    used = {asset.path for asset in listed if asset.path}
    assets = (*listed, *(picture for picture in pictures if picture.path not in used))
    used |= {asset.path for asset in assets}
    own = {MANIFEST, parts.character_path, *parts.scenario_paths}
    files = tuple(
        Asset(
            type="byaf" if member.name in own else "file",
            name=posixpath.basename(member.name),
            path=member.name,
            blob=MemberSource(archive.source, member, limits),
            max_bytes=limits.max_entry_bytes,
        )
        for member in archive.members
        if member.name not in used
    )
    return Bundle(
        card=character,
        assets=assets,
        image=next((asset for asset in assets if asset.path in icons), None),
        scenarios=parts.scenarios,
        files=files,
        source_format=Format.BYAF,
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """The JSON of a Backyard archive, and which members it came from."""

    manifest: FrozenObject
    character: FrozenObject
    character_path: str
    scenarios: tuple[FrozenObject, ...]
    scenario_paths: tuple[str, ...]


def read_parts(archive: Archive, warn: Warn) -> Parts:
    """Read the manifest, the first character and the scenarios; raises ``ByafError`` without a character."""
    manifest_member = archive.find(MANIFEST) or archive.find_ending(MANIFEST)
    if manifest_member is None:
        raise ByafError("the archive has no manifest.json")
    manifest = _object(archive, manifest_member)
    listed = manifest.get("characters")
    paths = list(listed) if is_sequence(listed) else []
    path = paths[0] if paths else None
    if not isinstance(path, str) or not path.strip():
        raise ByafError("manifest.json names no character")
    if len(paths) > 1:
        warn(f"the archive has {len(paths)} characters; the first was used")
    member = _find(archive, path)
    if member is None:
        raise ByafError(f"the character file {path!r} is not in the archive")
    character = _object(archive, member)
    scenarios = list(_scenarios(archive, manifest, warn))
    return Parts(
        manifest,
        character,
        member.name,
        tuple(scenario for _, scenario in scenarios),
        tuple(name for name, _ in scenarios),
    )


def listed_files(value: object, archive: Archive, warn: Warn) -> Sequence[object]:
    """Return what a list of files names, at most as many as an archive may have."""
    files: Sequence[object] = value if is_sequence(value) else ()
    most = archive.limits.max_entries
    if len(files) > most:
        warn(f"the archive lists {len(files)} files at once; the first {most} were read")
    return files[:most]


def _scenarios(archive: Archive, manifest: FrozenObject, warn: Warn) -> Iterator[tuple[str, FrozenObject]]:
    for path in listed_files(manifest.get("scenarios"), archive, warn):
        member = _find(archive, path) if isinstance(path, str) else None
        if member is None:
            warn(f"the scenario file {path!r} is not in the archive")
            continue
        try:
            yield member.name, _object(archive, member)
        except LimitExceededError:
            raise
        except FileFormatError as error:
            warn(f"a scenario could not be read: {error}")


def _find(archive: Archive, path: str) -> Member | None:
    return archive.find(path) or archive.find(posixpath.normpath(path)) if path else None


def _object(archive: Archive, member: Member) -> FrozenObject:
    value = archive.read_json(member)
    if not is_object(value):
        raise ByafError(f"{member.name} is not a JSON object")
    return freeze_object(value)


def _kept_character(parts: Parts, data: JsonObject, warn: Warn) -> Character | None:
    kept = parts.character.get(KEPT_CARD)
    if not is_mapping(kept):
        return None
    card = kept.get("card")
    if not is_mapping(card) or kept.get("fields") != fingerprint(data):
        warn("the archive's character was changed in Backyard; the card stored with it was not used")
        return None
    return Character.from_card(card, warn=warn)


def fingerprint(data: JsonObject) -> str:
    """A digest of the Backyard fields that a card uses: it shows whether they were changed."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _pictures(archive: Archive, parts: Parts, warn: Warn) -> Iterator[Asset]:
    folder = posixpath.dirname(parts.character_path)
    for image in listed_files(parts.character.get("images"), archive, warn):
        if is_mapping(image):
            yield from _picture(archive, "icon", text_of(image.get("path")), text_of(image.get("label")), folder, warn)
    for scenario, path in zip(parts.scenarios, parts.scenario_paths, strict=True):
        background = scenario.get("backgroundImage")
        file = text_of(background.get("path")) if is_mapping(background) else text_of(background)
        if file:
            yield from _picture(
                archive, "background", file, text_of(scenario.get("title")), posixpath.dirname(path), warn
            )


def _picture(archive: Archive, type_: str, path: str, label: str, folder: str, warn: Warn) -> Iterator[Asset]:
    full = posixpath.normpath(posixpath.join(folder, path)) if path else ""
    if not full or unsafe_part(full):
        warn(f"a picture has no usable path: {path!r}")
        return
    member = archive.find(full) or archive.find(path)
    if member is None:
        warn(f"the picture {full!r} is not in the archive")
        return
    stem, ext = posixpath.splitext(posixpath.basename(full))
    yield Asset(
        type=type_,
        name=label or stem,
        ext=ext.removeprefix(".").lower(),
        path=member.name,
        blob=MemberSource(archive.source, member, archive.limits),
        max_bytes=archive.limits.max_entry_bytes,
    )


def from_backyard(text: str) -> str:
    """Convert Backyard's macros to the common ones."""
    for pattern, replacement in _MACROS:
        text = pattern.sub(replacement, text)
    return text


def to_backyard(text: str, where: str, warn: Warn) -> str:
    """Convert macros to Backyard's, if reading them gives the same text again."""
    rewritten = text.replace("{{user}}", "{user}").replace("{{char}}", "{character}")
    if from_backyard(rewritten) == text:
        return rewritten
    if from_backyard(text) != text:
        warn(f"{where} has {{user}} or {{character}} in single braces, which Backyard takes for macros")
    return text


def text_of(value: object) -> str:
    """Return a text; an empty text for anything else."""
    return value if isinstance(value, str) else ""


def message_texts(scenario: Mapping[str, object], key: str) -> list[str]:
    """The texts of a scenario's first or example messages."""
    items = scenario.get(key)
    texts = (text_of(item.get("text")) for item in (items if is_sequence(items) else ()) if is_mapping(item))
    return [text for text in texts if text]


def first_message(scenario: Mapping[str, object]) -> str:
    """The text that opens a scenario."""
    items = scenario.get("firstMessages")
    first = items[0] if is_sequence(items) and items else None
    return text_of(first.get("text")) if is_mapping(first) else ""


def example_messages(scenario: Mapping[str, object]) -> str:
    """A scenario's example messages as a card has them."""
    texts = message_texts(scenario, "exampleMessages")
    return "".join(f"<START>\n{from_backyard(text)}\n" for text in texts).rstrip()


def card_data(
    manifest: Mapping[str, object], character: Mapping[str, object], scenarios: Sequence[Mapping[str, object]]
) -> JsonObject:
    """Make the data of a V2 card."""
    stated = manifest.get("author")
    author = stated if is_mapping(stated) else EMPTY_OBJECT
    first = scenarios[0] if scenarios else EMPTY_OBJECT
    display_name = text_of(character.get("displayName"))
    data: JsonObject = {
        "name": text_of(character.get("name")) or display_name,
        "description": from_backyard(text_of(character.get("persona"))),
        "personality": "",
        "scenario": from_backyard(text_of(first.get("narrative"))),
        "first_mes": from_backyard(first_message(first)),
        "mes_example": example_messages(first),
        "creator_notes": text_of(author.get("backyardURL")),
        "system_prompt": from_backyard(text_of(first.get("formattingInstructions"))),
        "post_history_instructions": "",
        "alternate_greetings": [*_alternate_greetings(scenarios)],
        "tags": ["nsfw"] if character.get("isNSFW") else [],
        "creator": text_of(author.get("name")),
        "character_version": "",
        "extensions": {"display_name": display_name} if display_name.strip() else {},
    }
    lore = character.get("loreItems")
    items = [item for item in (lore if is_sequence(lore) else ()) if is_mapping(item)]
    if items:
        entries: list[Json] = [_entry(item, index) for index, item in enumerate(items)]
        data["character_book"] = {"entries": entries, "extensions": {}}
    return data


def _alternate_greetings(scenarios: Sequence[Mapping[str, object]]) -> list[str]:
    # Compared as they are written in Backyard, before macros are converted.
    opening = first_message(scenarios[0]) if scenarios else ""
    later = (first_message(scenario) for scenario in scenarios[1:])
    return list(dict.fromkeys(from_backyard(text) for text in later if text.strip() and text != opening))


def _entry(item: Mapping[str, object], index: int) -> JsonObject:
    keys: list[Json] = [*split_keys(from_backyard(text_of(item.get("key"))))]
    content = from_backyard(text_of(item.get("value")))
    return {"keys": keys, "content": content, "extensions": {}, "enabled": True, "insertion_order": index}


def split_keys(text: str) -> list[str]:
    """Split a lore item's key at its commas."""
    return [key for key in (part.strip() for part in text.split(",")) if key]
