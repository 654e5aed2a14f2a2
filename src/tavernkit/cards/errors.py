"""Errors of card files, one class a format."""

from __future__ import annotations

from tavernkit.errors import (
    FileFormatError,
    InvalidCardError,
    LimitExceededError,
    StrictModeError,
    UnsupportedVersionError,
)

__all__ = [
    "ByafError",
    "CharXError",
    "EncryptedCardError",
    "ImageError",
    "JsonError",
    "LimitExceededError",
    "MissingAssetError",
    "NotACardError",
    "PngError",
    "RisumError",
    "RisumVersionError",
    "StrictCardError",
    "StrictVersionError",
    "UnknownFormatError",
    "UnsafeNameError",
    "VersionWarning",
    "YamlError",
    "ZipError",
]


class UnknownFormatError(FileFormatError):
    """The bytes are of no format that is known here."""


class JsonError(FileFormatError):
    """A text is not JSON."""


class YamlError(FileFormatError):
    """A text is not YAML, or uses more of YAML than a card may."""


class PngError(FileFormatError):
    """A PNG file is broken, or has no card."""


class ImageError(FileFormatError):
    """A JPEG or WebP file is broken, or has no card."""


class ZipError(FileFormatError):
    """An archive is broken, lacks a member, or has one that cannot be read."""


class UnsafeNameError(ZipError):
    """A member's name would leave the archive's own folder, or cannot be a name everywhere."""


class CharXError(ZipError):
    """A CHARX archive has no usable card."""


class ByafError(ZipError):
    """A Backyard archive has no usable character."""


class RisumError(FileFormatError):
    """A RisuAI module is broken."""


class RisumVersionError(RisumError, UnsupportedVersionError):
    """A RisuAI module is of an unknown version."""


class NotACardError(InvalidCardError):
    """The JSON is well-formed and is not a character card."""


class StrictCardError(InvalidCardError, StrictModeError):
    """A card file has a fault that would be a warning otherwise (strict mode)."""


class StrictVersionError(StrictCardError, UnsupportedVersionError):
    """A card is of a version that is not known and would be read as the nearest one otherwise (strict mode)."""


class VersionWarning(str):
    """A warning about the version of a card: strict mode raises ``StrictVersionError`` for it."""

    __slots__ = ()


class EncryptedCardError(InvalidCardError):
    """The card is encrypted with a password."""


class MissingAssetError(FileFormatError):
    """The card names an asset that is not in the file."""
