"""Cards as SillyTavern stores, imports and exports them."""

from tavernkit.cards._silly_tavern.importing import ImportedCard, export_card, import_file
from tavernkit.cards._silly_tavern.stored import ImportFailedError, ImportRefusedError, create

__all__ = ["ImportFailedError", "ImportRefusedError", "ImportedCard", "create", "export_card", "import_file"]
