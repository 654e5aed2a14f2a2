"""Character cards of every format, read and written, safely."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.cards.asset_list import AssetEntry as AssetEntry
    from tavernkit.cards.assets import Asset as Asset
    from tavernkit.cards.book import BookEntry as BookEntry
    from tavernkit.cards.book import CharacterBook as CharacterBook
    from tavernkit.cards.bundle import Bundle as Bundle
    from tavernkit.cards.bundle import Format as Format
    from tavernkit.cards.character import CardVersion as CardVersion
    from tavernkit.cards.character import Character as Character
    from tavernkit.cards.character import card_version as card_version
    from tavernkit.cards.conversion import ConversionNote as ConversionNote
    from tavernkit.cards.conversion import ConversionReport as ConversionReport
    from tavernkit.cards.conversion import convert as convert
    from tavernkit.cards.detect import detect_format as detect_format
    from tavernkit.cards.json_text import parse_json as parse_json
    from tavernkit.cards.limits import DEFAULT_LIMITS as DEFAULT_LIMITS
    from tavernkit.cards.limits import Limits as Limits
    from tavernkit.cards.loading import load as load
    from tavernkit.cards.participant import Participant as Participant
    from tavernkit.cards.participant import User as User
    from tavernkit.cards.readers import ReaderRegistry as ReaderRegistry
    from tavernkit.cards.readers import register_reader as register_reader
    from tavernkit.cards.risu_ai.lorebook import lorebook_from_book as lorebook_from_book
    from tavernkit.cards.risum import Module as Module
    from tavernkit.cards.saving import SaveReport as SaveReport
    from tavernkit.cards.saving import save as save
    from tavernkit.cards.saving import to_bytes as to_bytes
    from tavernkit.cards.schema import card_schema as card_schema
    from tavernkit.cards.validation import Problem as Problem
    from tavernkit.cards.validation import Severity as Severity
    from tavernkit.cards.validation import validate as validate
    from tavernkit.cards.validation import validate_file as validate_file

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".asset_list": ("AssetEntry",),
        ".assets": ("Asset",),
        ".book": ("BookEntry", "CharacterBook"),
        ".bundle": ("Bundle", "Format"),
        ".character": ("CardVersion", "Character", "card_version"),
        ".conversion": ("ConversionNote", "ConversionReport", "convert"),
        ".detect": ("detect_format",),
        ".json_text": ("parse_json",),
        ".limits": ("DEFAULT_LIMITS", "Limits"),
        ".loading": ("load",),
        ".participant": ("Participant", "User"),
        ".readers": ("ReaderRegistry", "register_reader"),
        ".risu_ai.lorebook": ("lorebook_from_book",),
        ".risum": ("Module",),
        ".saving": ("SaveReport", "save", "to_bytes"),
        ".schema": ("card_schema",),
        ".validation": ("Problem", "Severity", "validate", "validate_file"),
    },
)
