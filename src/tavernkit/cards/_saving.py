"""Writing a bundle as a card file of any format."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from tavernkit._arguments import require
from tavernkit._atomic import replace_atomically
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.cards._assets import DEFAULT_ICON, Asset, SourceBlob, data_uri, sniff
from tavernkit.cards._bundle import Bundle, Format
from tavernkit.cards._byaf_write import write_byaf
from tavernkit.cards._character import CardVersion, Character
from tavernkit.cards._charx import MODULE, main_picture, write_charx
from tavernkit.cards._conversion import ConversionReport, convert, convert_card
from tavernkit.cards._json_text import check_levels, dump_json, encode_payload
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._loading import LOREBOOK_SPEC
from tavernkit.cards._pictures import JPEG_PLACEHOLDER, WEBP_PLACEHOLDER, convert_picture, jpeg_without_card, write_webp
from tavernkit.cards._placement import (
    Place,
    add_entries,
    archive_paths,
    archive_places,
    chunk_keys,
    chunk_places,
    default_icon,
    inline_places,
    own_assets,
    put_places,
)
from tavernkit.cards._png import placeholder_png, write_png
from tavernkit.cards._risu_ai.character import lorebook_from_book
from tavernkit.cards._risum import MODULE_TYPE, Module, write_risum
from tavernkit.cards._source import BytesSource, Source, read_all, read_head
from tavernkit.cards._yaml_card import dump_yaml, with_short_form
from tavernkit.cards.errors import ImageError
from tavernkit.errors import ConfigError, WarningLog

Writable: TypeAlias = str | os.PathLike[str] | BinaryIO
"""Types that ``save()`` accepts."""

SUFFIXES: Mapping[str, Format] = {
    ".json": Format.JSON,
    ".yaml": Format.YAML,
    ".yml": Format.YAML,
    ".png": Format.PNG,
    ".apng": Format.PNG,
    ".jpg": Format.JPEG,
    ".jpeg": Format.JPEG,
    ".webp": Format.WEBP,
    ".charx": Format.CHARX,
    ".byaf": Format.BYAF,
    ".risum": Format.RISUM,
}
"""Formats by file extension; used only for writing."""


@dataclass(frozen=True, slots=True)
class SaveReport:
    """What was written, and what the format or the version does not support."""

    format: Format
    """The format that was written."""
    version: CardVersion | None
    """The card version that was written; None for a file without a character."""
    conversion: ConversionReport | None
    """What the version does not support; None if the version did not change."""
    warnings: tuple[str, ...]
    """What the format does not support."""


@dataclass(frozen=True, slots=True)
class _Job:
    out: BinaryIO
    bundle: Bundle
    limits: Limits
    warn: WarningLog
    with_v2: bool
    carries_picture: bool = False
    """True if the archive is appended to the picture."""


def save(
    content: Bundle | Character,
    target: Writable,
    *,
    format: Format | str | None = None,  # noqa: A002  # the word users know
    version: CardVersion | None = None,
    with_v2: bool = True,
    limits: Limits | None = None,
) -> SaveReport:
    """Write a bundle or character to a path (replaced in one step) or a binary file object.

    The format follows from the file name, else from the file it was loaded from. The version stays the same; CHARX is
    V3 unless you choose another. A V3 card in a PNG gets a V2 copy for older programs, unless ``with_v2`` is false.

    Args:
        content: What to write.
        target: A path or a binary file object.
        format: The file format, such as ``png`` or ``charx``.
        version: The card version to write.
        with_v2: Add a V2 copy to a V3 card in a PNG.
        limits: Limits on sizes and depth; by default ``DEFAULT_LIMITS``.

    Raises:
        LimitExceededError: The card is larger or nested more deeply than the limits allow.
    """
    require("content", content, Bundle | Character)
    require("target", target, Writable)
    limits = limits or DEFAULT_LIMITS
    bundle = Bundle(card=content) if isinstance(content, Character) else content
    chosen = _choose_format(bundle, target, format)
    log = WarningLog()
    card, conversion = bundle.card, None
    if card is not None:
        card, conversion = convert(card, version or ("v3" if chosen in _V3_FORMATS else card.version))
        check_levels(card.to_card(), limits.max_json_depth, what="card")
    job_bundle = bundle.replace(card=card)

    def write(out: BinaryIO) -> None:
        _WRITERS[chosen](_Job(out, job_bundle, limits, log, with_v2))

    _write_to(target, write)
    return SaveReport(chosen, card.version if card else None, conversion, tuple(log.messages))


def to_bytes(content: Bundle | Character, format: Format | str, *, version: CardVersion | None = None) -> bytes:  # noqa: A002
    """Write a bundle or character into memory.

    Args:
        content: What to write.
        format: The file format, such as ``png`` or ``charx``.
        version: The card version to write; by default the card's own, or V3 for CHARX.
    """
    buffer = io.BytesIO()
    save(content, buffer, format=format, version=version)
    return buffer.getvalue()


def _choose_format(bundle: Bundle, target: Writable, format_: Format | str | None) -> Format:
    if format_ is not None:
        try:
            return Format(format_)
        except ValueError:
            names = ", ".join(each.value for each in Format)
            raise ConfigError(f"the format is one of {names}, not {format_!r}", code="UNKNOWN_FORMAT") from None
    if isinstance(target, (str, os.PathLike)):
        found = SUFFIXES.get(Path(os.fspath(target)).suffix.lower())
        if found is not None:
            return found
    if bundle.source_format is not None:
        return bundle.source_format
    raise ConfigError("say which format to write: save(..., format='png')", code="UNKNOWN_FORMAT")


def _write_to(target: Writable, write: Callable[[BinaryIO], None]) -> None:
    if not isinstance(target, (str, os.PathLike)):
        write(target)
        return
    path = Path(os.fspath(target))
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", code="FOLDER_NOT_FOUND")

    def write_part(part: Path) -> None:
        with part.open("wb") as out:
            write(out)

    replace_atomically(path, write_part)


def _write_json(job: _Job) -> None:
    job.out.write(dump_json(_inline_card(job, picture=False), indent=4).encode())


def _write_yaml(job: _Job) -> None:
    card = _inline_card(job, picture=False)
    job.out.write(dump_yaml(with_short_form(card) if job.bundle.card else card, job.warn).encode())


def _inline_card(job: _Job, *, picture: bool) -> JsonObject:
    """Return the card with its assets inside, for files that contain only a card, or a card and a picture."""
    bundle = job.bundle
    if bundle.card is None:
        return _without_character(bundle)
    card = bundle.card.to_card()
    assets = own_assets(bundle.assets)
    put_places(card, inline_places(assets))
    new = [asset for asset in assets if not asset.uri]
    add_entries(card, new, lambda asset: data_uri(asset.read(), asset.ext), job.warn)
    _warn_of_rest(job, picture=picture)
    return card


def _without_character(bundle: Bundle) -> JsonObject:
    if bundle.module is not None:
        return {"type": MODULE_TYPE, **bundle.module.to_json()}
    if bundle.lore_books:
        return {"spec": LOREBOOK_SPEC, "data": bundle.lore_books[0].to_json()}
    raise ConfigError("the bundle is empty: it has no character, lore book or module")


def _warn_of_rest(job: _Job, *, picture: bool) -> None:
    bundle = job.bundle
    if not picture and bundle.image is not None and bundle.image.uri in ("", DEFAULT_ICON):
        job.warn("the picture is not in the file: this format has no room for it")
    if bundle.lore_books:
        job.warn(
            f"{len(bundle.lore_books)} lore books next to the card are not in the file: merge them into the card's own"
        )
    if bundle.module is not None:
        job.warn("the RisuAI module next to the card is not in the file: only archives can contain one")
    files = [file for file in bundle.files if file.type == "file"]
    if files:
        job.warn(f"{len(files)} other files of the archive are not in this file: only archives can contain them")


def _write_png(job: _Job) -> None:
    character = job.bundle.character
    card = character.to_card()
    image, icon = _picture(job, "png")
    if icon is not None:
        put_places(card, {icon.uri: Place(DEFAULT_ICON, DEFAULT_ICON)})
    keys = chunk_keys([asset for asset in own_assets(job.bundle.assets) if asset is not icon])
    put_places(card, chunk_places(keys))
    new = {id(asset): key for key, asset in keys.items() if not asset.uri}
    listed = [asset for asset in keys.values() if id(asset) in new]
    add_entries(card, listed, lambda asset: f"__asset:{new[id(asset)]}", job.warn)
    cards = [("ccv3" if character.version == "v3" else "chara", encode_payload(card))]
    if character.version == "v3" and job.with_v2:
        older, _ = convert_card(card, "v3", "v2", preserve=False)
        cards.insert(0, ("chara", encode_payload(older)))
    _warn_of_rest(job, picture=True)
    assets = ((key, base64.b64encode(asset.read())) for key, asset in keys.items())
    write_png(job.out, image, cards, assets, job.limits, job.warn)


def _write_charx(job: _Job) -> None:
    bundle = job.bundle
    card = bundle.character.to_card()
    paths = archive_paths(own_assets(bundle.assets))
    put_places(card, archive_places(paths))
    members: dict[str, Callable[[], bytes]] = {path: asset.read for path, asset in paths.items()}
    new = {id(asset): path for path, asset in paths.items() if not asset.uri}
    listed = [asset for asset in paths.values() if id(asset) in new]
    add_entries(card, listed, lambda asset: f"embeded://{new[id(asset)]}", job.warn)
    _add_picture(job, card, members)
    if bundle.module is not None:
        members[MODULE] = lambda: _module_bytes(bundle.module)
    for file in bundle.files:
        if file.type == "file" and file.path not in members:
            members[file.path] = file.read
    write_charx(job.out, card, members)


def _add_picture(job: _Job, card: JsonObject, members: dict[str, Callable[[], bytes]]) -> None:
    """Put a picture that is not among the assets into the archive, as the main icon."""
    image = job.bundle.image
    if image is None or not image.available or (job.carries_picture and image.uri == DEFAULT_ICON):
        return
    if any(image.same_as(asset) for asset in job.bundle.assets if asset.uri != DEFAULT_ICON):
        return
    data = _bare(image, job.limits)
    path = f"assets/icon/image/main.{image.ext or 'png'}"
    while path in members:
        path = path.replace("/main", "/main_", 1)
    if not default_icon(card, f"embeded://{path}"):
        if job.carries_picture or main_picture(job.bundle.assets) is not None:
            return
        picture = Asset(type="icon", name="main", ext=image.ext)
        add_entries(card, [picture], lambda _: f"embeded://{path}", job.warn)
    members[path] = lambda: data


def _bare(image: Asset, limits: Limits) -> bytes:
    """Return a picture without the card inside it."""
    source = image.blob.source if isinstance(image.blob, SourceBlob) else BytesSource(image.read())
    if sniff(read_head(source)) == "png":
        out = io.BytesIO()
        write_png(out, source, [], [], limits, WarningLog())
        return out.getvalue()
    data = _whole(source, limits)
    return jpeg_without_card(data, limits) if sniff(data) == "jpg" else data


def _whole(image: Source, limits: Limits) -> bytes:
    return read_all(image, limits.max_image_bytes, limit="max_image_bytes", what="the picture")


def _write_jpeg(job: _Job) -> None:
    image, _ = _picture(job, "jpg")
    job.out.write(jpeg_without_card(_whole(image, job.limits), job.limits))
    with tempfile.SpooledTemporaryFile(max_size=job.limits.max_entry_bytes) as archive:
        behind = dataclasses.replace(job, out=cast("BinaryIO", archive), carries_picture=_is_picture(job.bundle, "jpg"))
        _write_charx(behind)
        archive.seek(0)
        while block := archive.read(1 << 18):
            job.out.write(block)


def _write_webp(job: _Job) -> None:
    image, _ = _picture(job, "webp")
    job.out.write(write_webp(_whole(image, job.limits), _inline_card(job, picture=True), job.limits, job.warn))


def _write_byaf(job: _Job) -> None:
    _warn_of_module(job)
    write_byaf(job.out, job.bundle, job.bundle.character, job.warn)


def _warn_of_module(job: _Job) -> None:
    if job.bundle.module is not None:
        job.warn("the RisuAI module next to the card is not in the file: BYAF cannot contain one")


def _write_risum(job: _Job) -> None:
    job.out.write(_module_bytes(job.bundle.module or _module_of(job)))


def _module_of(job: _Job) -> Module:
    book = job.bundle.book
    name = job.bundle.card.name if job.bundle.card else (book and book.name) or "Lore"
    if job.bundle.card is not None:
        job.warn("a module has lore, scripts and triggers only: the character is not in the file")
    lore = tuple(lorebook_from_book(book)) if book else ()
    return Module(name=f"{name} Module", description=f"Module for {name}", lorebook=lore)


def _module_bytes(module: Module | None) -> bytes:
    assert module is not None
    out = io.BytesIO()
    write_risum(out, module)
    return out.getvalue()


_PLACEHOLDERS: Mapping[str, Callable[[], bytes]] = {
    "png": placeholder_png,
    "jpg": lambda: JPEG_PLACEHOLDER,
    "webp": lambda: WEBP_PLACEHOLDER,
}


def _picture(job: _Job, ext: str) -> tuple[Source, Asset | None]:
    """Return the picture to put a card into, and its asset if it is one of the card's."""
    bundle = job.bundle
    pictures = [asset for asset in (bundle.image, main_picture(bundle.assets)) if asset is not None and asset.available]
    for asset in pictures:
        if isinstance(asset.blob, SourceBlob):
            if sniff(read_head(asset.blob.source)) == ext:
                return asset.blob.source, None
        elif sniff(data := asset.read()) == ext:
            icon = next((each for each in bundle.assets if each is asset and each.uri != DEFAULT_ICON), None)
            return BytesSource(data), icon
    for asset in pictures:
        try:
            return BytesSource(convert_picture(ext, _bare(asset, job.limits), job.warn)), None
        except ImageError as error:
            job.warn(f"the picture cannot be turned into a {ext.upper()}: {error}; a plain one is used instead")
    return BytesSource(_PLACEHOLDERS[ext]()), None


def _is_picture(bundle: Bundle, ext: str) -> bool:
    blob = bundle.image.blob if bundle.image else None
    return isinstance(blob, SourceBlob) and sniff(read_head(blob.source)) == ext


_V3_FORMATS = (Format.CHARX, Format.JPEG)

_WRITERS: Mapping[Format, Callable[[_Job], None]] = {
    Format.JSON: _write_json,
    Format.YAML: _write_yaml,
    Format.PNG: _write_png,
    Format.APNG: _write_png,
    Format.JPEG: _write_jpeg,
    Format.WEBP: _write_webp,
    Format.CHARX: _write_charx,
    Format.BYAF: _write_byaf,
    Format.RISUM: _write_risum,
}
