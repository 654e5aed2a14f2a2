"""Where a bundle's assets go in a file: members of an archive, chunks of a PNG, or data uris in the card itself."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.cards._archive import unsafe_part
from tavernkit.cards._assets import DEFAULT_ICON, RISU_LISTS, Asset, data_uri, embedded_path, is_embedded
from tavernkit.cards._charx import CARD, MODULE
from tavernkit.errors import Warn

MAX_KEY_BYTES = 50
"""A PNG's asset key: with its prefix it must stay below the 70 bytes that RisuAI reads."""

_KINDS = {
    "image": ("png", "jpg", "jpeg", "webp", "gif", "apng", "avif", "bmp", "jfif", "svg", ""),
    "audio": ("mp3", "wav", "ogg", "flac", "m4a", "aac"),
    "video": ("mp4", "webm", "mov", "avi", "mkv"),
    "model": ("mmd", "obj", "vrm", "glb", "gltf", "fbx"),
    "ai": ("safetensors", "cpkt", "onnx"),
    "fonts": ("otf", "ttf", "woff", "woff2"),
    "code": ("js", "ts", "lua", "py", "css", "html"),
}
_FOLDERS = ("emotion", "background", "user_icon", "icon")
_UNUSABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f\ud800-\udfff]')
_FILE_PATH = re.compile(r"[/.]")
_KEY = re.compile(rf"[\x21-\x7e]{{1,{MAX_KEY_BYTES}}}\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """How the card refers to an asset: in ``assets``, and in RisuAI's lists of V2."""

    uri: str
    risu: str


def kind_of(ext: str) -> str:
    """The folder in which RisuAI puts assets of an extension."""
    return next((kind for kind, extensions in _KINDS.items() if ext in extensions), "other")


def own_assets(assets: Sequence[Asset]) -> list[Asset]:
    """Assets whose bytes are in the file, except data uris, which are already in the card."""
    return [asset for asset in assets if asset.available and (not asset.uri or is_embedded(asset.uri))]


def _once(assets: Sequence[Asset]) -> Iterator[Asset]:
    """Remove assets with the same uri."""
    seen: set[str] = set()
    for asset in assets:
        if asset.uri not in seen or not asset.uri:
            seen.add(asset.uri)
            yield asset


def archive_paths(assets: Sequence[Asset]) -> dict[str, Asset]:
    """Give each asset a path in an archive: the one it had, or a new one; the same uri is the same path."""
    paths: dict[str, Asset] = {}
    taken: dict[str, int] = {}
    for asset in _once(assets):
        path = asset.path
        if not _FILE_PATH.search(path) or unsafe_part(path) or path in (CARD, MODULE) or path in taken:
            path = _new_path(asset)
        paths[free_path(path, taken)] = asset
    return paths


def _new_path(asset: Asset) -> str:
    folder = asset.type if asset.type in _FOLDERS else "other"
    ext = asset.ext if re.fullmatch(r"[a-z0-9]{1,10}", asset.ext) and asset.ext != "unknown" else "png"
    stem = _UNUSABLE.sub("_", asset.name)[:80].strip(". ") or "asset"
    return f"assets/{folder}/{kind_of(ext)}/{stem}.{ext}"


def free_path(path: str, taken: dict[str, int]) -> str:
    """Add a number to a path until it is unique, and reserve it.

    Args:
        path: The path.
        taken: The last number that was tried for each path, because thousands of assets may have the same name.
    """
    stem, ext = posixpath.splitext(path)
    number, free = taken.get(path, 0), path
    while free in taken:
        number += 1
        free = f"{stem}_{number}{ext}"
    taken[free] = 0
    taken[path] = number
    return free


def archive_places(paths: Mapping[str, Asset]) -> dict[str, Place]:
    """Return how a card refers to the members of its archive."""
    return {
        asset.uri: Place(f"embeded://{path}", f"__asset:{path}")
        for path, asset in paths.items()
        if asset.uri and embedded_path(asset.uri) != path
    }


def chunk_keys(assets: Sequence[Asset]) -> dict[str, Asset]:
    """Give each asset a key for a PNG chunk: the one it had, or a number."""
    keys: dict[str, Asset] = {}
    for asset in _once(assets):
        key = asset.path
        if not _KEY.match(key) or key in keys:
            key = next(str(number) for number in range(len(keys), 2 * len(assets) + 1) if str(number) not in keys)
        keys[key] = asset
    return keys


def chunk_places(keys: Mapping[str, Asset]) -> dict[str, Place]:
    """Return how a card refers to the asset chunks of its PNG."""
    return {
        asset.uri: Place(f"__asset:{key}", f"__asset:{key}")
        for key, asset in keys.items()
        if asset.uri and asset.uri.lower() != f"__asset:{key}".lower()
    }


def inline_places(assets: Sequence[Asset]) -> dict[str, Place]:
    """Return assets as data uris in the card itself."""
    places: dict[str, Place] = {}
    for asset in assets:
        if asset.uri and asset.uri not in places:
            data = asset.read()
            places[asset.uri] = Place(data_uri(data, asset.ext), base64.b64encode(data).decode())
    return places


def put_places(card: JsonObject, places: Mapping[str, Place]) -> None:
    """Rewrite a card's uris to where the assets are now."""
    data = card.get("data")
    if not is_object(data):
        return
    for asset in _list(data.get("assets")):
        if is_object(asset) and isinstance(uri := asset.get("uri"), str) and uri in places:
            asset["uri"] = places[uri].uri
    extensions = data.get("extensions")
    risuai = extensions.get("risuai") if is_object(extensions) else None
    for key, _ in RISU_LISTS:
        for item in _list(risuai.get(key) if is_object(risuai) else None):
            if isinstance(item, list) and len(item) > 1 and isinstance(uri := item[1], str) and uri in places:
                item[1] = places[uri].risu


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def add_entries(card: JsonObject, assets: Sequence[Asset], uri_of: Callable[[Asset], str], warn: Warn) -> None:
    """Add assets to the card's list that are not in it yet."""
    data = card.get("data")
    if not assets:
        return
    if card.get("spec") != "chara_card_v3" or not is_object(data):
        warn(f"{len(assets)} assets are not in the file: only V3 cards have a list of assets")
        return
    listed = _list(data.get("assets"))
    for asset in assets:
        listed.append({"type": asset.type, "uri": uri_of(asset), "name": asset.name, "ext": asset.ext or "unknown"})
    data["assets"] = listed


def default_icon(card: JsonObject, uri: str) -> bool:
    """Point the default icon of a V3 card to a picture's new location; return True if it had one."""
    data = card.get("data")
    found = False
    for asset in _list(data.get("assets") if is_object(data) else None):
        if is_object(asset) and asset.get("uri") == DEFAULT_ICON:
            asset["uri"] = uri
            found = True
    return found
