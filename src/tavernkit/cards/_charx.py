"""CHARX: an archive with ``card.json`` and assets, possibly appended to a picture."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO

from tavernkit._values import JsonObject
from tavernkit.cards._archive import Archive, Member
from tavernkit.cards._assets import Asset, SourceBlob, collect_assets, sniff
from tavernkit.cards._bundle import Bundle, Format
from tavernkit.cards._character import Character
from tavernkit.cards._json_text import dump_json
from tavernkit.cards._pictures import image_format
from tavernkit.cards._risum import Module, read_risum
from tavernkit.cards._source import BytesSource, SliceSource, read_head
from tavernkit.cards.errors import CharXError
from tavernkit.errors import FileFormatError, LimitExceededError

CARD = "card.json"
MODULE = "module.risum"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_charx(archive: Archive) -> Bundle:
    """Read a CHARX archive: the card and the module now, other members on demand."""
    warn = archive.warn
    member = archive.find(CARD) or archive.find_ending(CARD)
    if member is None:
        raise CharXError("the archive has no card.json")
    if member.name != CARD:
        warn(f"card.json is not at the archive's root; {member.name} was used")
    character = Character.from_card(archive.read_json(member), warn=warn)
    if character.version != "v3":
        warn(f"the archive's card is {character.version.upper()}; other programs expect V3 in a CHARX")
    members = {each.name: each for each in reversed(archive.members)}
    if len(members) < len(archive.members):
        warn("the archive has several members of one name; the first was used")

    picture = _prefix(archive)
    assets = collect_assets(character, archive.lookup, picture.blob if picture else None, archive.limits, warn)
    module = _read_module(archive)
    used = {asset.path for asset in assets} | {member.name, MODULE if module else ""}
    return Bundle(
        card=character,
        assets=assets,
        image=main_picture(assets) or picture,
        module=module,
        files=tuple(_file(archive, each) for name, each in sorted(members.items()) if name not in used),
        source_format=Format.JPEG if picture and picture.ext == "jpg" else Format.CHARX,
    )


def main_picture(assets: Iterable[Asset]) -> Asset | None:
    """Return the icon named main, else the first icon, among those in the file."""
    icons = [asset for asset in assets if asset.type == "icon" and asset.available]
    return next((icon for icon in icons if icon.name.lower() == "main"), icons[0] if icons else None)


def _prefix(archive: Archive) -> Asset | None:
    if archive.start == 0:
        return None
    head = read_head(archive.source)
    if image_format(head) is None:
        return None
    blob = SourceBlob(SliceSource(archive.source, 0, archive.start))
    return Asset(type="icon", name="main", ext=sniff(head), blob=blob, max_bytes=archive.limits.max_image_bytes)


def _read_module(archive: Archive) -> Module | None:
    member = archive.find(MODULE)
    if member is None:
        return None
    try:
        return read_risum(BytesSource(archive.read(member)), archive.limits, archive.warn)
    except LimitExceededError:
        raise
    except FileFormatError as error:
        archive.warn(f"{MODULE} could not be read: {error}")
        return None


def _file(archive: Archive, member: Member) -> Asset:
    name = posixpath.basename(member.name)
    ext = posixpath.splitext(name)[1].removeprefix(".").lower()
    blob, most = archive.lookup(member.name), archive.limits.max_entry_bytes
    return Asset(type="file", name=name, ext=ext, path=member.name, blob=blob, max_bytes=most)


def write_charx(out: BinaryIO, card: JsonObject, members: Mapping[str, Callable[[], bytes]]) -> None:
    """Write an archive: the card first, then the members, one at a time. Times are not recorded."""
    with zipfile.ZipFile(out, "w") as archive:
        write_member(archive, CARD, dump_json(card).encode(), zipfile.ZIP_DEFLATED)
        for path, read in members.items():
            write_member(archive, path, read(), zipfile.ZIP_STORED)


def write_member(archive: zipfile.ZipFile, path: str, data: bytes, method: int) -> None:
    """Write a member without a time or owner, so that the same content gives the same bytes."""
    info = zipfile.ZipInfo(path, _EPOCH)
    info.compress_type = method
    info.external_attr = 0o600 << 16
    archive.writestr(info, data)
