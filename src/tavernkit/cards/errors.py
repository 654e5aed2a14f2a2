"""Errors of card files, one class per format."""

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
    """The bytes are in an unknown format."""


class JsonError(FileFormatError):
    """A text is not JSON."""


class YamlError(FileFormatError):
    """A text is not YAML, or uses YAML features that cards must not use."""


class PngError(FileFormatError):
    """A PNG file is broken, or has no card."""


class ImageError(FileFormatError):
    """A JPEG or WebP file is broken, or has no card."""


class ZipError(FileFormatError):
    """An archive is broken, or a member is missing or cannot be read."""


class UnsafeNameError(ZipError):
    """A member's name points outside the archive's folder, or is not valid on all systems."""


class CharXError(ZipError):
    """A CHARX archive has no usable card."""


class ByafError(ZipError):
    """A Backyard archive has no usable character."""


class RisumError(FileFormatError):
    """A RisuAI module is broken."""


class RisumVersionError(RisumError, UnsupportedVersionError):
    """A RisuAI module is of an unknown version."""


class NotACardError(InvalidCardError):
    """The JSON is valid but not a character card."""


class StrictCardError(InvalidCardError, StrictModeError):
    """A card file has a problem that would be a warning without strict mode."""


class StrictVersionError(StrictCardError, UnsupportedVersionError):
    """A card has an unknown version, which would be read as the nearest known one without strict mode."""


class VersionWarning(str):
    """A warning about the version of a card; strict mode raises ``StrictVersionError`` instead."""

    __slots__ = ()


class EncryptedCardError(InvalidCardError):
    """The card is encrypted with a password."""


class MissingAssetError(FileFormatError):
    """The card names an asset that is not in the file."""
