"""Files and media that are attached to chat lines: which models accept media, and what they cost."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_round
from tavernkit._text.traced import join
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, is_mapping, is_sequence
from tavernkit.dialects._shapes import openai_part
from tavernkit.silly_tavern._chat.chat_message import ChatMessage

if TYPE_CHECKING:
    from tavernkit.silly_tavern._files.preset import Preset


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
    """Return the media that a line shows: all, or the chosen one of a gallery; a wrong index means the first."""
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


LOW_COST, TILE_COST = 85, 170
LOW_SIDE, TILE_SIDE, LONG_LIMIT, SHORT_LIMIT = 512, 512, 2048, 768
VIDEO_TOKENS_A_SECOND, AUDIO_TOKENS_A_SECOND = 263, 32
UNKNOWN_VIDEO_SECONDS, UNKNOWN_AUDIO_SECONDS = 40, 300
"""SillyTavern's default length of media that it cannot measure."""

ALWAYS = ("custom", "cometapi")
"""Sources that always accept pictures."""

BY_MODEL_NAME = (
    "openai",
    "azure_openai",
    "claude",
    "makersuite",
    "vertexai",
    "cohere",
    "xai",
    "zai",
    "siliconflow",
    "deepseek",
)
"""Sources that accept pictures depending on the model's name."""

BY_MODEL_LIST = (
    "openrouter",
    "mistralai",
    "moonshot",
    "aimlapi",
    "chutes",
    "electronhub",
    "pollinations",
    "nanogpt",
    "workers_ai",
    "fireworks",
)
"""Sources that accept what their list of models says. Only OpenRouter's can be given to a build (``model_list``)."""

VISION_MODELS = (
    "chatgpt-4o-latest",
    "gpt-4-turbo",
    "gpt-4-vision",
    "gpt-4.1",
    "gpt-4.5-preview",
    "gpt-4o",
    "gpt-5",
    "gpt-6-astra",
    "o1",
    "o3",
    "o4-mini",
    "claude-3",
    "claude-opus-4",
    "claude-sonnet-4",
    "claude-haiku-4",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-fable",
    "gemini-2.0",
    "gemini-2.5",
    "gemini-3",
    "gemini-exp-1206",
    "gemini-robotics",
    "learnlm",
    "gemma-3-27b",
    "gemma-3-12b",
    "gemma-3-4b",
    "gemma-4",
    "c4ai-aya-vision",
    "command-a-vision",
    "grok-4",
    "grok-2-vision",
    "glm-4.5v",
    "glm-4.6v",
    "glm-5v-turbo",
    "autoglm-phone",
    "Qwen3-VL",
    "GLM-4.5V",
    "deepseek-v4-flash-vision-exp",
)
VIDEO_MODELS = (
    "gemini-2.0",
    "gemini-2.5",
    "gemini-3",
    "gemini-exp-1206",
    "gemma-4",
    "glm-4.5v",
    "glm-4.6v",
    "glm-5v-turbo",
)
VIDEO_SOURCES = ("makersuite", "vertexai", "zai")

ModelList: TypeAlias = Sequence[Mapping[str, object]]
"""OpenRouter's list of models."""

MediaSize = tuple[float, float]
"""Width and height in pixels."""

Measure = Callable[[str], MediaSize | None]
"""Returns a picture's size by its URL, for pictures that are not in the message itself."""


@dataclass(frozen=True, slots=True)
class InlineMedia:
    """One attachment as a part of the content, with its cost."""

    part: JsonObject
    tokens: int


def inline_media(
    line: ChatMessage,
    preset: Preset,
    *,
    default_display: str,
    measure: Measure | None,
    resolve: Callable[[str], str] = str,
    model_list: ModelList = (),
) -> list[InlineMedia] | None:
    """Return the attachments of a message that the model accepts; None if there are none.

    ``resolve`` returns the ``data:`` URL of a file, or an empty text if it cannot be read: SillyTavern then sends only
    the text of the message. ``model_list`` is OpenRouter's list of models.
    """
    if not preset.media_inlining:
        return None
    found: list[InlineMedia] = []
    some = False
    for item in shown_media(line.extra, default_display):
        url, kind = item.get("url"), _kind(item)
        if not isinstance(url, str) or not url or not takes(kind, preset, model_list):
            continue
        some, url = True, resolve(url)
        if not url:
            continue
        if kind == IMAGE:
            found.append(_picture(url, preset.inline_image_quality, measure))
        elif kind == VIDEO:
            quality = preset.inline_image_quality or "auto"
            part: JsonObject = {"type": "video_url", "video_url": {"url": url, "detail": quality}}
            found.append(InlineMedia(part, timed_tokens(item.get("duration"), "video")))
        else:
            part = {"type": "audio_url", "audio_url": {"url": url}}
            found.append(InlineMedia(part, timed_tokens(item.get("duration"), "audio")))
    return found if some else None


def why_not_sent(item: Mapping[str, object], preset: Preset, model_list: ModelList) -> str:
    """Return why an attachment is not sent; empty if it is."""
    if not preset.media_inlining:
        return "the preset does not send media (media_inlining)"
    kind, source = _kind(item), preset.chat_completion_source
    if takes(kind, preset, model_list):
        return ""
    if source == "openrouter" and not model_list:
        return "OpenRouter's list of models, which says what a model takes, is not known (model_list=)"
    if source in BY_MODEL_LIST and source != "openrouter":
        return f"the list of models of {source}, which says what a model takes, is not known"
    return f"{preset.model or source} takes no {kind} input, as far as SillyTavern knows"


def takes(kind: object, preset: Preset, model_list: ModelList = ()) -> bool:
    """Return True if the source and model accept a kind of media; audio goes to models that accept videos.

    Args:
        kind: ``image``, ``video`` or ``audio``.
        preset: The preset, which has the source and the model.
        model_list: OpenRouter's list of models.
    """
    source, model = preset.chat_completion_source, preset.model
    if kind not in (IMAGE, VIDEO, AUDIO):
        return False
    if source == "openrouter":
        return kind in _listed_inputs(model, model_list)
    if kind == IMAGE:
        return source in ALWAYS or (source in BY_MODEL_NAME and any(mark in model for mark in VISION_MODELS))
    return source in VIDEO_SOURCES and any(mark in model for mark in VIDEO_MODELS)


def _listed_inputs(model: str, model_list: ModelList) -> Sequence[object]:
    entry = next((each for each in model_list if each.get("id") == model), EMPTY_OBJECT)
    architecture = entry.get("architecture")
    inputs = architecture.get("input_modalities") if is_mapping(architecture) else None
    return inputs if is_sequence(inputs) else ()


def _kind(item: Mapping[str, object]) -> object:
    kind = item.get("type")
    return IMAGE if kind is None else kind


def picture_tokens(size: MediaSize | None, quality: str) -> int:
    """Return the tokens of a picture at a quality; unknown sizes, and pictures without any, count as the smallest."""
    if quality == "low" or size is None or min(size) <= 0:
        return LOW_COST
    width, height = size
    if quality in ("auto", "") and width <= LOW_SIDE and height <= LOW_SIDE:
        return LOW_COST
    # The first limit is meant for the longer side, but SillyTavern scales the shorter one, as recorded: a long, narrow
    # picture costs many tiles.
    for limit in (LONG_LIMIT, SHORT_LIMIT):
        scale = limit / min(width, height)
        width, height = js_round(width * scale), js_round(height * scale)
    tiles = math.ceil(width / TILE_SIDE) * math.ceil(height / TILE_SIDE)
    return tiles * TILE_COST + LOW_COST


def size_of_data_url(url: str) -> MediaSize | None:
    """Return the size of a picture inside a ``data:`` URL, for PNG, GIF, JPEG and WebP."""
    if not url.startswith("data:"):
        return None
    try:
        data = base64.b64decode(url.partition(",")[2], validate=False)
    except (binascii.Error, ValueError):
        return None
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack(">II", data[16:24])
        elif data[:3] == b"GIF":
            width, height = struct.unpack("<HH", data[6:10])
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
        else:
            return _jpeg_size(data)
    except struct.error:
        return None
    return width, height


def _webp_size(data: bytes) -> MediaSize | None:
    """Return the size by the kind of the first chunk: lossy, lossless or extended."""
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int(struct.unpack("<I", data[21:25])[0])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg_size(data: bytes) -> MediaSize | None:
    position = 2 if data[:2] == b"\xff\xd8" else len(data)
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        position += 2 + length
    return None


def _picture(url: str, quality: str, measure: Measure | None) -> InlineMedia:
    size = size_of_data_url(url) or (measure(url) if measure is not None else None)
    return InlineMedia(
        openai_part("image_url", {"url": url, "detail": quality or "auto"}), picture_tokens(size, quality)
    )


def timed_tokens(seconds: object, kind: str) -> int:
    """Return the tokens of a video or audio; unknown lengths count as long."""
    tokens, unknown = _TIMED[kind]
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        return unknown * tokens
    return math.ceil(seconds) * tokens


_TIMED = {
    "video": (VIDEO_TOKENS_A_SECOND, UNKNOWN_VIDEO_SECONDS),
    "audio": (AUDIO_TOKENS_A_SECOND, UNKNOWN_AUDIO_SECONDS),
}
