"""Cards as SillyTavern stores, imports and exports them."""

from tavernkit.cards._silly_tavern.errors import ImportFailedError, ImportRefusedError
from tavernkit.cards._silly_tavern.importing import Imported, export_card, import_file
from tavernkit.cards._silly_tavern.stored import create

__all__ = ["ImportFailedError", "ImportRefusedError", "Imported", "create", "export_card", "import_file"]
