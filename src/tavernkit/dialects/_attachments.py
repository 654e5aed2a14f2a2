"""Images, audio, video and files that go with a message."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import unquote_to_bytes

from tavernkit._arguments import require_choice
from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_mapping
from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._block import Message

Kind: TypeAlias = Literal["image", "audio", "video", "file"]
_KINDS: tuple[Kind, ...] = ("image", "audio", "video", "file")

_DEFAULT_MEDIA_TYPES: Mapping[Kind, str] = {
    "image": "image/png",
    "audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/octet-stream",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One attachment: its location (``url``, or a provider's ``file_id``) or its content (``data``, base64).

    Messages contain attachments as plain JSON: ``Message(…, attachments=[Attachment.image(url=…).to_dict()])``.
    """

    kind: Kind
    """``image``, ``audio``, ``video`` or ``file``."""
    url: str | None = None
    data: str | None = None
    file_id: str | None = None
    media_type: str | None = None
    """The media type, such as ``image/png``; by default the usual one of the kind."""
    name: str | None = None
    """The file name."""
    detail: str | None = None
    """How closely the model looks at a picture (OpenAI: ``low``, ``high``, ``auto``)."""

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.url, self.data, self.file_id)) != 1:
            raise ConfigError("an attachment needs exactly one of url, data and file_id")

    @classmethod
    def image(cls, *, url: str | None = None, data: bytes | str | None = None, **fields: str) -> Attachment:
        """An image by URL (``data:`` URLs too) or by its bytes.

        Args:
            url: Where the image is.
            data: Its bytes, or Base64 text.
            fields: Other fields by name: ``file_id``, ``media_type``, ``name``, ``detail``.
        """
        return cls.make("image", url=url, data=data, **fields)

    @classmethod
    def audio(cls, *, url: str | None = None, data: bytes | str | None = None, **fields: str) -> Attachment:
        """A sound by URL or by its bytes.

        Args:
            url: Where the sound is.
            data: Its bytes, or Base64 text.
            fields: Other fields by name: ``file_id``, ``media_type``, ``name``.
        """
        return cls.make("audio", url=url, data=data, **fields)

    @classmethod
    def file(cls, *, url: str | None = None, data: bytes | str | None = None, **fields: str) -> Attachment:
        """A document by URL or by its bytes.

        Args:
            url: Where the document is.
            data: Its bytes, or Base64 text.
            fields: Other fields by name: ``file_id``, ``media_type``, ``name``.
        """
        return cls.make("file", url=url, data=data, **fields)

    @classmethod
    def make(cls, kind: str, *, url: str | None = None, data: bytes | str | None = None, **rest: str) -> Attachment:
        """Make an attachment; bytes are encoded, ``data:`` URLs are split, the media type is guessed from the name.

        Args:
            kind: ``image``, ``audio``, ``video`` or ``file``.
            url: Where it is.
            data: Its bytes, or Base64 text.
            rest: Other fields by name: ``file_id``, ``media_type``, ``name``, ``detail``.

        Raises:
            ConfigError: There is no such kind or field, or not exactly one of ``url``, ``data``, ``file_id`` is given.
        """
        require_choice("kind", kind, get_args(Kind))
        media_type = rest.pop("media_type", None)
        if isinstance(data, bytes):
            data = _encoded(data)
        if url is not None and url.startswith("data:"):
            header, _, payload = url.removeprefix("data:").partition(",")
            declared, *flags = header.split(";")
            media_type = media_type or declared or None
            data = payload if "base64" in flags else _encoded(unquote_to_bytes(payload.encode("utf-8", "replace")))
            url = None
        if media_type is None:
            media_type, _ = mimetypes.guess_type(rest.get("name") or (url or "").partition("?")[0])
        unknown = set(rest) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"an attachment has no {', '.join(sorted(unknown))}")
        return cls(kind=cast("Kind", kind), url=url, data=data, media_type=media_type, **rest)

    @property
    def mime_type(self) -> str:
        """The media type, or the usual one of its kind."""
        return self.media_type or _DEFAULT_MEDIA_TYPES[self.kind]

    @property
    def data_url(self) -> str:
        """The URL, or the data as a ``data:`` URL."""
        return self.url if self.url is not None else f"data:{self.mime_type};base64,{self.data or ''}"

    def to_dict(self) -> JsonObject:
        """Return the JSON form that messages contain and ``parse_attachment()`` reads."""
        plain: JsonObject = {"type": self.kind}
        for field in fields(self)[1:]:
            value: Json = getattr(self, field.name)
            if value is not None:
                plain[field.name] = value
        return plain


def attachments_of(message: Message, position: int, warn: Warn) -> list[Attachment]:
    """Return the attachments of a message; unreadable ones are left out with a warning."""
    found: list[Attachment] = []
    for index, raw in enumerate(message.attachments or ()):
        attachment = parse_attachment(raw)
        if attachment is None:
            where = f"attachment {index} of message {position} ({message.role})"
            warn(f"{where} cannot be read and was left out: {raw!r:.120}")
        else:
            found.append(attachment)
    return found


def parse_attachment(raw: object) -> Attachment | None:
    """Read an attachment in our own form, or a content part of OpenAI, Anthropic or Google."""
    if isinstance(raw, Attachment):
        return raw
    if not is_mapping(raw):
        return None
    kind = raw.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else _read_google
    if reader is None:
        return None
    try:
        return reader(raw)
    except (ConfigError, TypeError):
        return None


def _read_own(raw: Mapping[str, object]) -> Attachment:
    if is_mapping(source := raw.get("source")):
        return _read_anthropic(raw, source)
    if is_mapping(inner := raw.get("file")):
        return _read_openai_file(inner)
    kind = str(raw["type"])
    return Attachment.make(
        "file" if kind == "document" else kind,
        url=_text(raw, "url"),
        data=_text(raw, "data"),
        **_texts(
            media_type=_text(raw, "media_type", "mime_type", "mimeType"),
            name=_text(raw, "name", "filename"),
            file_id=_text(raw, "file_id"),
            detail=_text(raw, "detail"),
        ),
    )


def _read_anthropic(raw: Mapping[str, object], source: Mapping[str, object]) -> Attachment:
    data = _text(source, "data")
    if data is not None and source.get("type") == "text":
        data = _encoded(data.encode("utf-8", "replace"))
    return Attachment.make(
        "image" if raw.get("type") == "image" else "file",
        url=_text(source, "url"),
        data=data,
        **_texts(
            media_type=_text(source, "media_type"), file_id=_text(source, "file_id"), name=_text(raw, "title", "name")
        ),
    )


def _read_openai_file(inner: Mapping[str, object]) -> Attachment:
    data = _text(inner, "file_data")
    is_url = data is not None and data.startswith("data:")
    return Attachment.make(
        "file",
        url=data if is_url else None,
        data=None if is_url else data,
        **_texts(name=_text(inner, "filename"), file_id=_text(inner, "file_id")),
    )


def _read_url_part(raw: Mapping[str, object]) -> Attachment:
    key = str(raw["type"])
    inner = raw.get(key)
    url = inner if isinstance(inner, str) else _text(inner, "url") if is_mapping(inner) else None
    detail = _text(inner, "detail") if is_mapping(inner) else None
    return Attachment.make(key.removesuffix("_url"), url=url, **_texts(detail=detail))


def _read_input_audio(raw: Mapping[str, object]) -> Attachment:
    inner = raw.get("input_audio")
    if not is_mapping(inner):
        raise ConfigError("input_audio must be an object")
    media_type = {"mp3": "audio/mpeg"}.get(_text(inner, "format") or "wav", f"audio/{inner.get('format') or 'wav'}")
    return Attachment.make("audio", data=_text(inner, "data"), media_type=media_type)


def _read_google(raw: Mapping[str, object]) -> Attachment:
    inline = raw.get("inline_data") or raw.get("inlineData")
    stored = raw.get("file_data") or raw.get("fileData")
    inner = inline if is_mapping(inline) else stored
    if not is_mapping(inner):
        raise ConfigError("neither inline_data nor file_data")
    media_type = _text(inner, "mime_type", "mimeType") or "application/octet-stream"
    kind = media_type.partition("/")[0]
    return Attachment.make(
        kind if kind in _KINDS else "file",
        url=_text(inner, "file_uri", "fileUri"),
        data=_text(inner, "data"),
        media_type=media_type,
    )


_READERS: Mapping[str, Callable[[Mapping[str, object]], Attachment]] = {
    "image": _read_own,
    "audio": _read_own,
    "video": _read_own,
    "file": _read_own,
    "document": _read_own,
    "image_url": _read_url_part,
    "video_url": _read_url_part,
    "audio_url": _read_url_part,  # SillyTavern's form
    "input_audio": _read_input_audio,
}


def _text(mapping: Mapping[str, object], *keys: str) -> str | None:
    for key in keys:
        value = mapping.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _texts(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
