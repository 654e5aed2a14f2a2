"""Converts pictures with Pillow (the extra ``images``)."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any, Final

from tavernkit.cards.errors import ImageError
from tavernkit.errors import Warn

MAX_PIXELS: Final = 64_000_000
"""Larger pictures are not decoded: a small file may contain a huge one."""
_READ: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_WRITTEN: Final = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}
_QUALITY: Final = 95


class PillowMissingError(ImageError):
    """Pillow is not installed."""


def convert_picture(ext: str, data: bytes, warn: Warn) -> bytes:
    """Return a picture in another format, with the same size and colours; for an animation, the first frame.

    Args:
        ext: ``png``, ``jpg`` or ``webp``.
        data: The picture, in any format that cards have.
        warn: Called if animation or transparency is lost.

    Raises:
        ImageError: The picture cannot be read or is too large, or Pillow is not installed.
    """
    image: Any
    try:
        image = import_module("PIL.Image")
    except ImportError as error:
        raise PillowMissingError("the extra 'images' is not installed (pip install 'tavernkit[images]')") from error
    try:
        with image.open(io.BytesIO(data), formats=_READ) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise ImageError(f"it has {width} x {height} pixels, which is more than {MAX_PIXELS}")
            if getattr(picture, "is_animated", False):
                warn(f"the picture is animated: only its first frame is in the {ext.upper()}")
                picture.seek(0)
            return _encode(image, picture, ext, warn)
    except ImageError:
        raise
    except Exception as error:  # a decoder of untrusted files may raise anything
        raise ImageError(f"it cannot be read ({type(error).__name__})") from error


def _encode(image: Any, picture: Any, ext: str, warn: Warn) -> bytes:
    profile = picture.info.get("icc_profile")
    transparent = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    picture = picture.convert("RGBA" if transparent else "RGB")
    if ext == "jpg" and transparent:
        if picture.getchannel("A").getextrema()[0] < 255:
            warn("a JPEG cannot be transparent: the picture was put on white")
        ground = image.new("RGBA", picture.size, (255, 255, 255, 255))
        ground.alpha_composite(picture)
        picture = ground.convert("RGB")
    out = io.BytesIO()
    options: dict[str, object] = {} if ext == "png" else {"quality": _QUALITY}
    if profile:
        options["icc_profile"] = profile
    picture.save(out, _WRITTEN[ext], **options)
    return out.getvalue()
