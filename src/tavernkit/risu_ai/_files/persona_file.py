"""RisuAI's exported personas: a picture with the persona in a text chunk."""

from __future__ import annotations

import base64
import binascii
import io
import uuid
from collections.abc import Callable

from tavernkit._text.js_values import json_stringify
from tavernkit._values import is_mapping
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._png import encode_chunk, placeholder_png, text_chunk, walk
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai._objects import RisuPersona

KEYWORD = "persona"


class PersonaFileError(FileFormatError):
    """The file contains no RisuAI persona."""


def _new_id() -> str:
    return str(uuid.uuid4())


def read_persona(
    source: FileContent, *, new_id: Callable[[], str] = _new_id, warn: Warn = log_warning, strict: bool = False
) -> RisuPersona:
    """Read a persona that was exported as a picture. As in RisuAI it must have a name and a prompt.

    Args:
        source: The path of the picture, or its bytes.
        new_id: Makes the id that an imported persona gets.
        warn: Called with messages about damage.
        strict: Raise instead of warning.

    Raises:
        PersonaFileError: The picture contains no persona.
    """
    data = read_file(source, DEFAULT_LIMITS.max_file_bytes, limit="max_file_bytes")
    name, warn = called(source), refuse_warning if strict else warn
    stream, mark = io.BytesIO(data), KEYWORD.encode() + b"\0"
    for chunk in walk(stream, DEFAULT_LIMITS, warn):
        stream.seek(chunk.offset + 8)
        if chunk.kind != b"tEXt" or stream.read(len(mark)) != mark:
            continue
        text = stream.read(min(chunk.length - len(mark), DEFAULT_LIMITS.max_text_chunk_bytes))
        try:
            value = parse_json(base64.b64decode(text, validate=True), what=name, warn=warn)
        except binascii.Error as error:
            raise PersonaFileError(f"{name}: the persona in it is damaged: {error}") from error
        found = RisuPersona.from_json({**value, "id": new_id()}) if is_mapping(value) else None
        if found is None or not found.name or not found.prompt:
            raise PersonaFileError(f"{name}: the persona in it has no name or no prompt")
        return found
    raise PersonaFileError(f"{name}: there is no persona in the picture")


def write_persona(persona: RisuPersona, picture: bytes | None = None) -> bytes:
    """Write a persona as a picture that RisuAI imports.

    Args:
        persona: The persona.
        picture: The PNG to put it into; a gray one if none is given.
    """
    image = placeholder_png() if picture is None else picture
    content = json_stringify({"name": persona.name or "", "personaPrompt": persona.prompt or ""})
    written, stream = io.BytesIO(), io.BytesIO(image)
    written.write(image[:8])
    mark = KEYWORD.encode() + b"\0"
    for chunk in walk(stream, DEFAULT_LIMITS, log_warning):
        whole = image[chunk.offset : chunk.end]
        if chunk.kind != b"IEND" and not (chunk.kind == b"tEXt" and whole[8 : 8 + len(mark)] == mark):
            written.write(whole)
    written.write(text_chunk(KEYWORD, base64.b64encode(content.encode("utf-8", "replace"))))
    written.write(encode_chunk(b"IEND", b""))
    return written.getvalue()
