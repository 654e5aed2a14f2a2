"""Cards as RisuAI reads and writes them: its own character object, its CHARX layout, its lore entries."""

from tavernkit.cards._risu_ai.character import (
    ImportRefusedError,
    ImportThrewError,
    RisuLore,
    book_from_lorebook,
    convert_character_book,
)
from tavernkit.cards._risu_ai.exporting import export_charx
from tavernkit.cards._risu_ai.importing import RISU_LIMITS, ImportedCard, import_file

__all__ = [
    "RISU_LIMITS",
    "ImportRefusedError",
    "ImportThrewError",
    "ImportedCard",
    "RisuLore",
    "book_from_lorebook",
    "convert_character_book",
    "export_charx",
    "import_file",
]
