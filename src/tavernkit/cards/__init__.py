"""Character cards of every format, read and written, safely."""

from tavernkit.cards.asset_list import AssetEntry
from tavernkit.cards.book import BookEntry, CharacterBook
from tavernkit.cards.character import CardVersion, Character, Participant, User, card_version
from tavernkit.cards.convert import ConversionNote, ConversionReport, convert
from tavernkit.cards.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "DEFAULT_LIMITS",
    "AssetEntry",
    "BookEntry",
    "CardVersion",
    "Character",
    "CharacterBook",
    "ConversionNote",
    "ConversionReport",
    "Limits",
    "Participant",
    "User",
    "card_version",
    "convert",
]
