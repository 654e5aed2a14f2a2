"""Files and media that are attached to chat lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._text.traced import join
from tavernkit._values import FrozenObject, is_mapping, is_sequence

FILE_SEPARATOR = "\n\n"
"""The separator between the files of a line, and before the line's text."""

IMAGE, VIDEO, AUDIO = "image", "video", "audio"
LIST, GALLERY = "list", "gallery"
"""How a line shows its media: all of them, or one of a gallery."""
MEDIA_KEYS = frozenset(("media", "image", "image_swipes", "video"))
"""Keys of a line's ``extra`` that hold media, of the new kind and of older ones."""


def attached_files(extra: FrozenObject) -> Sequence[Mapping[str, object]]:
    """Return the files of a line; the single file of the older format comes last."""
    older = extra.get("file")
    return [*objects(extra.get("files")), *([older] if is_mapping(older) else [])]


def attached_text(
    files: Sequence[Mapping[str, object]], texts: Mapping[str, str], missing: Callable[[Mapping[str, object]], None]
) -> tuple[str, Sequence[Mapping[str, object]]]:
    """Return the joined text of files, and those that have some. It is in the line itself or in the folder.

    Args:
        files: The files of a line.
        texts: Texts of the folder's files by URL.
        missing: Called with files that cannot be found.
    """
    found: list[str] = []
    there: list[Mapping[str, object]] = []
    for file in files:
        text, url = file.get("text"), file.get("url")
        if not (isinstance(text, str) and text):
            text = texts.get(url) if isinstance(url, str) else None
            if text is None:
                missing(file)
                continue
        if text:
            found.append(text)
            there.append(file)
    return join(FILE_SEPARATOR, found), there


def names_of(files: Sequence[Mapping[str, object]]) -> str:
    """Return what attached files or media are called, and where they are stored."""
    return ", ".join(map(_name_of, files))


def _name_of(file: Mapping[str, object]) -> str:
    name, url = file.get("name") or file.get("title"), file.get("url")
    where = url if isinstance(url, str) and url and not url.startswith("data:") else "the chat's file"
    return f"{name} ({where})" if isinstance(name, str) and name else where


def attached_media(extra: FrozenObject) -> Sequence[Mapping[str, object]]:
    """Return the media of a line; older lines have one image, a gallery of them, or a video."""
    if media := objects(extra.get("media")):
        return media
    image, swipes, video = extra.get("image"), extra.get("image_swipes"), extra.get("video")
    urls = [each for each in swipes if isinstance(each, str)] if is_sequence(swipes) else []
    if isinstance(image, str) and image and image not in urls:
        urls.append(image)
    found: list[Mapping[str, object]] = [{"url": url, "type": IMAGE} for url in urls]
    if isinstance(video, str) and video:
        found.append({"url": video, "type": VIDEO})
    return found


def shown_media(extra: FrozenObject, default_display: str) -> Sequence[Mapping[str, object]]:
    """Return the media that a line shows: all, or the chosen one of a gallery."""
    items = attached_media(extra)
    display, index = extra.get("media_display"), extra.get("media_index")
    if not objects(extra.get("media")) and is_sequence(extra.get("image_swipes")):
        display = GALLERY
        index = next((at for at, item in enumerate(items) if item.get("url") == extra.get("image")), 0)
    if (display or default_display) == GALLERY and items:
        chosen = index if isinstance(index, int) and 0 <= index < len(items) else 0
        return [items[chosen]]
    return items


def titles(extra: FrozenObject) -> str:
    """Return the titles that follow a line's text."""
    found = [extra.get("title")] if extra.get("append_title") else []
    found += [item.get("title") for item in objects(extra.get("media")) if item.get("append_title")]
    return join("", ("\n\n" + str(title) for title in found if title))


def objects(value: object) -> list[Mapping[str, object]]:
    """Return the objects in a list; empty for anything else."""
    return [item for item in value if is_mapping(item)] if is_sequence(value) else []
