"""CHARX and BYAF as SillyTavern reads them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, Json, JsonObject, is_mapping, is_object, is_sequence, thaw
from tavernkit.cards._archive import LOCAL, Archive, Member, find_end, open_archive, read_directory_entry, unsafe_part
from tavernkit.cards._assets import embedded_path
from tavernkit.cards._byaf import (
    Parts,
    card_data,
    example_messages,
    first_message,
    from_backyard,
    listed_files,
    read_parts,
    text_of,
)
from tavernkit.cards._fields import ignore
from tavernkit.cards._limits import Limits
from tavernkit.cards._silly_tavern.stored import chat_name, iso_time, sanitize
from tavernkit.cards._source import BytesSource
from tavernkit.cards.errors import CharXError, ZipError
from tavernkit.errors import FileFormatError, LimitExceededError

IMAGE_EXTENSIONS = ("png", "jpg", "jpeg", "webp", "gif", "apng", "avif", "bmp", "jfif")

_IMAGE_ENDING = re.compile(rf"\.(?:{'|'.join(IMAGE_EXTENSIONS)})\Z", re.IGNORECASE)
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that an import writes into the user's directory."""

    path: str
    """Where it is written, in the user's directory."""
    data: bytes = field(repr=False)
    """Its content."""


@dataclass(frozen=True, slots=True)
class CharXAsset:
    """A picture of a CHARX archive and what it is for."""

    type: str
    name: str
    ext: str
    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CharXParts:
    """The parts of a CHARX archive that are imported."""

    card: JsonObject
    assets: tuple[CharXAsset, ...]

    @property
    def picture(self) -> bytes | None:
        """The icon named main, else the first icon."""
        icons = [asset for asset in self.assets if asset.type == "icon"]
        main = next((icon for icon in icons if icon.name.lower() == "main"), icons[0] if icons else None)
        return main.data if main else None

    def files(self, name: str) -> tuple[ImportedFile, ...]:
        """Sprites, backgrounds and other pictures by their new names; later ones replace earlier ones."""
        written: dict[str, ImportedFile] = {}
        for asset in self.assets:
            if asset.type not in ("icon", "user_icon"):
                base, folder = _place(asset, name)
                written[f"{folder}/{base}"] = ImportedFile(f"{folder}/{base}.{asset.ext}", asset.data)
        return tuple(written.values())


def _place(asset: CharXAsset, name: str) -> tuple[str, str]:
    if asset.type in ("emotion", "expression"):
        kind, separator, folder = "sprite", "-", f"characters/{name}"
    elif asset.type == "background":
        kind, separator, folder = "background", "_", f"characters/{name}/backgrounds"
    else:
        kind, separator, folder = "misc", "_", f"user/images/{name}"
    plain = _NOT_PLAIN.sub(separator, _IMAGE_ENDING.sub("", asset.name).lower()).strip(separator)
    return plain or f"{kind}-{asset.index}", folder


def import_charx_parts(data: bytes, limits: Limits, parse: Callable[[str, Limits], Json]) -> CharXParts:
    """Read the card and the pictures of a CHARX archive."""
    archive = _open(data, limits)
    member = archive.find_ending("card.json")
    if member is None:
        raise CharXError("the archive has no card.json")
    text = _read(archive, member, limits.max_json_bytes).decode("utf-8", errors="replace")
    card = parse(text, limits)
    if not is_object(card) or "spec" not in card:
        raise CharXError("card.json has no spec")
    return CharXParts(card, tuple(_assets(archive, card)))


def _open(data: bytes, limits: Limits) -> Archive:
    """List the members like SillyTavern's ZIP reader: from the first local header on, up to an unsafe name."""
    start = data.find(LOCAL)
    if start < 0:
        raise ZipError("the file is not an archive")
    source = BytesSource(data[start:])
    members: list[Member] = []
    with source.open() as stream:
        end = find_end(stream)
        if end is None:
            raise ZipError("the archive has no directory")
        if end.count > limits.max_entries:
            raise LimitExceededError(f"the archive has more than {limits.max_entries} members", limit="max_entries")
        stream.seek(end.stated_start)
        for _ in range(end.count):
            member = read_directory_entry(stream, 0)
            if unsafe_part(member.name.replace("\\", "/")):
                break
            members.append(member)
    return Archive(source, limits, ignore, tuple(members), 0)


def _read(archive: Archive, member: Member, max_bytes: int) -> bytes:
    data = archive.read(member, max_bytes)
    if len(data) != member.size:
        raise ZipError(f"{member.name} has a different size than the archive's directory says")
    return data


def _assets(archive: Archive, card: JsonObject) -> Iterator[CharXAsset]:
    data = card.get("data")
    listed = data.get("assets") if is_object(data) else None
    for index, asset in enumerate(listed if isinstance(listed, list) else ()):
        if not is_object(asset):
            continue
        path = embedded_path(text_of(asset.get("uri")))
        if path is None:
            continue
        ext = text_of(asset.get("ext")).lower().removeprefix(".") or posixpath.splitext(path)[1].lower()[1:]
        member = archive.find(path)
        if ext not in IMAGE_EXTENSIONS or member is None:
            continue
        try:
            content = _read(archive, member, archive.limits.max_entry_bytes)
        except LimitExceededError:
            raise
        except FileFormatError:
            continue
        yield CharXAsset(text_of(asset.get("type")).lower(), text_of(asset.get("name")), ext, index, content)


@dataclass(frozen=True, slots=True)
class ByafParts:
    """The parts of a Backyard archive that are imported."""

    card: JsonObject
    file_name: str
    picture: bytes | None
    files: tuple[ImportedFile, ...]
    chats: tuple[tuple[str, tuple[JsonObject, ...]], ...]


def import_byaf_parts(data: bytes, now: datetime, limits: Limits) -> ByafParts:
    """Read the character, the scenarios and the pictures of a Backyard archive."""
    archive = open_archive(BytesSource(data), limits, ignore)
    parts = read_parts(archive, ignore)
    fields = card_data(parts.manifest, parts.character, parts.scenarios)
    name = text_of(fields["name"])
    file_name = sanitize(text_of(parts.character.get("displayName")) or name, "_")
    pictures = list(_pictures(archive, parts))
    files = [
        ImportedFile(f"characters/{file_name}/{posixpath.basename(path)}", content) for path, content in pictures[1:]
    ]
    scenarios = parts.scenarios or ({},)
    chats = tuple((_chat_file(scenario, name, now), tuple(_chat_lines(scenario, name, now))) for scenario in scenarios)
    card: JsonObject = {"spec": "chara_card_v2", "spec_version": "2.0", "data": fields}
    return ByafParts(card, file_name, pictures[0][1] if pictures else None, tuple(files), chats)


def _pictures(archive: Archive, parts: Parts) -> Iterator[tuple[str, bytes]]:
    folder = posixpath.dirname(parts.character_path)
    for image in listed_files(parts.character.get("images"), archive, ignore):
        path = text_of(image.get("path")) if is_mapping(image) else ""
        full = posixpath.normpath(posixpath.join(folder, path)) if path else ""
        member = archive.find(full) or archive.find(path)
        if member is not None:
            yield full, archive.read(member)


def _chat_file(scenario: Mapping[str, object], name: str, now: datetime) -> str:
    return sanitize(f"{chat_name(text_of(scenario.get('title')) or name, now)} imported")


_MODEL_SETTINGS: tuple[tuple[str, str, Json], ...] = (
    ("model", "model", ""),
    ("temperature", "temperature", 1.2),
    ("top_k", "topK", 40),
    ("top_p", "topP", 0.9),
    ("min_p", "minP", 0.1),
    ("min_p_enabled", "minPEnabled", True),
    ("repeat_penalty", "repeatPenalty", 1.05),
    ("repeat_penalty_tokens", "repeatLastN", 256),
    ("by_prompt_template", "promptTemplate", "general"),
    ("grammar", "grammar", None),
)
"""SillyTavern's key, Backyard's key, and the default."""


def _chat_lines(scenario: FrozenObject, name: str, now: datetime) -> Iterator[JsonObject]:
    settings: JsonObject = {
        key: default if scenario.get(theirs) is None else thaw(scenario[theirs])
        for key, theirs, default in _MODEL_SETTINGS
    }
    yield {
        "user_name": "unused",
        "character_name": "unused",
        "chat_metadata": {
            "scenario": text_of(scenario.get("narrative")),  # SillyTavern rewrites no macros here
            "mes_example": example_messages(scenario),
            "system_prompt": from_backyard(text_of(scenario.get("formattingInstructions"))),
            "mes_examples_optional": scenario.get("canDeleteExampleMessages") is True,
            "byaf_model_settings": settings,
            "chat_backgrounds": [],
            "custom_background": "",
        },
    }
    opening = first_message(scenario)
    if opening:
        yield {"name": name, "is_user": False, "send_date": iso_time(now), "mes": opening}
    messages = scenario.get("messages")
    for message in messages if is_sequence(messages) else ():
        if is_mapping(message):
            yield from _chat_message(message, name, now)


def _chat_message(message: Mapping[str, object], name: str, now: datetime) -> Iterator[JsonObject]:
    """A message of the scenario's own chat: the user's has a text, the character's has one or more outputs."""
    if message.get("type") == "human":
        date = text_of(message.get("createdAt")) or iso_time(now)
        yield {"name": "User", "is_user": True, "send_date": date, "mes": text_of(message.get("text"))}
        return
    outputs = message.get("outputs")
    found = [output for output in (outputs if is_sequence(outputs) else ()) if is_mapping(output)]
    if found:
        date = text_of(found[0].get("createdAt")) or iso_time(now)
        swipes: list[Json] = [text_of(output.get("text")) for output in found]
        yield {"name": name, "is_user": False, "send_date": date, "mes": swipes[0], "swipe_id": 0, "swipes": swipes}
