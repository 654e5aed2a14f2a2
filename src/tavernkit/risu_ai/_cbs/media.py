"""The display stage: converts media tags that the parser leaves in the text to HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_lower, number_to_string, trim
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._js import code_units, replace_delimited, replace_in_lines
from tavernkit.risu_ai._objects import Asset, RisuCharacter

Resolver = Callable[[str], str]
"""Turns the stored path of a file into an address that can be shown."""

MAX_NAME = 256
"""Longer names are not compared with the names of assets."""

MAX_COMPARED = 5_000_000
"""Characters of names that one text may have compared to find the closest ones."""

_MEDIA_TAG = re.compile(
    r"\{\{(raw|path|img|image|video|audio|bgm|bg|emotion|asset|video-img|source)::(.+?)\}\}", re.DOTALL
)
_INLAY_TAG = re.compile("\\{\\{(inlay|inlayed|inlayeddata)::([^\n\r\u2028\u2029]+?)\\}\\}")
_VIDEO_EXTENSIONS = frozenset({"mp4", "webm", "avi", "m4p", "m4v"})
_EXTENSIONS = ("webp", "png", "jpg", "jpeg", "gif", "mp4", "webm", "avi", "m4p", "m4v", "mp3", "wav", "ogg")
_UNIMPORTANT = re.compile("[_ -.]")  # the range from the space to the full stop, with everything in between
_HIDDEN_KINDS = frozenset({"img", "image", "emotion", "asset", "bg", "raw", "path"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSettings:
    """The user's settings for media: ``width`` is in rem, -1 or None for none."""

    user_icon: str = ""
    """The path of the user's picture, for personas that have none."""
    max_difference: float = 4
    """How many letters a name may differ from an asset's name."""
    legacy_findings: bool = False
    """True to show only assets with exactly that name."""
    width: float | None = -1
    hide_all_images: bool = False
    """True to leave out all pictures."""


@dataclass(frozen=True, slots=True)
class ShownInlay:
    """A file in a message, and its address for the browser."""

    kind: Literal["image", "video", "audio"]
    """``image``, ``video`` or ``audio``."""
    url: str
    """The address for the browser."""


def replace_assets(
    text: str,
    context: CBSContext,
    resolve: Resolver,
    *,
    settings: MediaSettings | None = None,
    background: bool = False,
    warn: Warn | None = None,
) -> str:
    """Replace ``{{img::name}}`` and similar tags with HTML. Groups have no media: their text stays unchanged.

    Args:
        text: The text to show.
        context: The character and chat.
        resolve: Returns the address of an asset.
        settings: RisuAI's settings for media.
        background: Replace ``{{bg::name}}`` with a picture; otherwise it is removed.
        warn: Called with each warning.
    """
    character = context.character
    if character is None or character.is_group or "{{" not in text:
        return text
    library = _Library(context, character, settings or MediaSettings(), resolve, background=background, warn=warn)
    return replace_delimited(_MEDIA_TAG, "}}", lambda found: library.html(found[1], js_lower(found[2])), text)


def replace_inlays(text: str, inlays: Mapping[str, ShownInlay], *, hide_all_images: bool = False) -> str:
    """Replace ``{{inlay::id}}`` and similar tags with HTML; unknown ids stay unchanged.

    Args:
        text: The text to show.
        inlays: The inlays by id.
        hide_all_images: RisuAI's setting of that name.
    """

    def html(found: re.Match[str]) -> str:
        inlay = inlays.get(found[2])
        if inlay is None:
            return found[0]
        if hide_all_images and inlay.kind == "image":
            return ""
        shown = _INLAYS[inlay.kind].format(inlay.url)
        return shown if found[1] == "inlay" else f'<div class="risu-inlay-image">{shown}</div>\n\n'

    return replace_in_lines(_INLAY_TAG, "}}", html, text)


_INLAYS = {
    "image": '<img src="{}"/>',
    "video": '<video controls><source src="{}" type="video/mp4"></video>',
    "audio": '<audio controls><source src="{}" type="audio/mpeg"></audio>',
}

_TEMPLATES = {
    "raw": "{path}",
    "path": "{path}",
    "img": '<img src="{path}" alt="{path}" style="{width} "/>',
    "image": '<div class="risu-inlay-image"><img src="{path}" alt="{path}" style="{width}"/></div>\n',
    "video": '<video controls autoplay loop><source src="{path}" type="video/mp4"></video>\n',
    "video-img": '<video autoplay muted loop><source src="{path}" type="video/mp4"></video>\n',
    "audio": '<audio controls autoplay loop><source src="{path}" type="audio/mpeg"></audio>\n',
    "bgm": '<div risu-ctrl="bgm___auto___{path}" style="display:none;"></div>\n',
    "bg": (
        '<div style="width:100%;height:100%;background: linear-gradient(rgba(0, 0, 0, 0.8), rgba(0, 0, 0, 0.8)),'
        'url({path}); background-size: cover;"></div>'
    ),
}


class _Library:
    """The media that one text can show."""

    def __init__(
        self,
        context: CBSContext,
        character: RisuCharacter,
        settings: MediaSettings,
        resolve: Resolver,
        *,
        background: bool,
        warn: Warn | None,
    ) -> None:
        self._context = context
        self._character = character
        self._settings = settings
        self._resolve = resolve
        self._background = background
        self._chance: float | None = None
        self._emotions = {js_lower(each.name): each.path for each in character.emotions or ()}  # the last one counts
        self._assets: dict[str, list[Asset]] = {}
        own = character.assets or ()
        for asset in (*own, *(each for module in context.enabled_modules for each in module.assets or ())):
            self._assets.setdefault(js_lower(asset.name), []).append(asset)
        # Only the character's own assets are found by similar names, not those of modules.
        self._closest = _Closest(own, settings.max_difference, warn)
        width = settings.width
        # 0 counts as a width.
        self._width = "" if width is None or width == -1 else f"max-width:{number_to_string(width)}rem;"

    def html(self, kind: str, name: str) -> str:
        """Return the HTML of a tag; empty if the file is not found or not shown."""
        if self._settings.hide_all_images and kind in _HIDDEN_KINDS:
            return ""
        if kind == "emotion":
            emotion = self._emotions.get(name)
            return "" if emotion is None else self._fill("img", emotion)
        if kind == "source":
            return self._source(name)
        asset = self._find(name)
        if asset is None or (kind == "bg" and not self._background):
            return ""
        if kind == "asset":
            video = asset.extension in _VIDEO_EXTENSIONS
            return self._fill("video-img", asset.path) if video else self._fill("img", asset.path) + "\n"
        return self._fill(kind, asset.path)

    def _fill(self, kind: str, path: str) -> str:
        return _TEMPLATES[kind].format(path=self._resolve(path), width=self._width)

    def _source(self, name: str) -> str:
        persona = self._context.persona
        path = ""
        if name == "char":
            path = self._character.image
        elif name == "user":
            path = (persona.icon if persona is not None else "") or self._settings.user_icon
        return self._resolve(path) if path else ""

    def _find(self, name: str) -> Asset | None:
        found = self._assets.get(name)
        if found:
            alike = [asset for asset in found if asset.extension == found[0].extension]
            return alike[math.floor(self._choice() * len(alike))] if len(alike) > 1 else alike[0]
        return None if self._settings.legacy_findings else self._closest.find(name)

    def _choice(self) -> float:
        if self._chance is None:  # one number for all choices in a text
            index = self._context.chat_index
            self._chance = pick_hash_rand(index, (self._character.id or "global") + str(index))
        return self._chance


def _cleaned(name: str) -> str:
    for extension in _EXTENSIONS:
        name = name.removesuffix(f".{extension}")  # in this order, so that several may go
    return code_units(_UNIMPORTANT.sub("", trim(name)))


class _Closest:
    """Finds the asset with the most similar name, within a work limit per text."""

    def __init__(self, assets: Iterable[Asset], max_difference: float, warn: Warn | None) -> None:
        self._assets = assets
        self._max_difference = max_difference
        self._warn = warn
        self._names: list[tuple[str, Asset]] | None = None
        self._known: dict[str, Asset | None] = {}
        self._left = MAX_COMPARED

    def find(self, name: str) -> Asset | None:
        """Return the closest one; None if none is close enough."""
        if name not in self._known:
            self._known[name] = self._find(_cleaned(name))
        return self._known[name]

    def _find(self, wanted: str) -> Asset | None:
        if len(wanted) > MAX_NAME or self._left < 0:
            return None
        if self._names is None:
            self._names = [(_cleaned(js_lower(asset.name)), asset) for asset in self._assets]
        best: Asset | None = None
        allowed = self._max_difference
        for name, asset in self._names:
            distance = self._distance(wanted, name, allowed)
            if distance is not None:
                best = asset
                allowed = distance - 1  # from here on, only a closer one counts
            if self._left < 0:
                if self._warn is not None:
                    self._warn("too many media files are missing: similar names are no longer looked for")
                break
        return best

    def _distance(self, left: str, right: str, allowed: float) -> int | None:
        """Count the edits between two texts (Levenshtein); None if there are more than allowed."""
        self._left -= 1
        if abs(len(left) - len(right)) > allowed or len(right) > MAX_NAME:
            return None
        row = list(range(len(right) + 1))
        for index, character in enumerate(left, 1):
            self._left -= len(row)
            above, row = row, [index]
            for column, other in enumerate(right):
                row.append(min(above[column] + (character != other), above[column + 1] + 1, row[column] + 1))
            if min(row) > allowed:
                return None
        return row[-1] if row[-1] <= allowed else None
