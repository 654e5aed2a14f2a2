"""World Info: lorebooks as SillyTavern reads, scans and explains them."""

from tavernkit.silly_tavern.world_info.book import WorldBook
from tavernkit.silly_tavern.world_info.candidates import PassType
from tavernkit.silly_tavern.world_info.compiled import CompiledBooks
from tavernkit.silly_tavern.world_info.editing import add_missing_fields, duplicate_entry, new_entry, split_keys
from tavernkit.silly_tavern.world_info.engine import WorldInfoEngine
from tavernkit.silly_tavern.world_info.entry import CharacterFilter, Entry
from tavernkit.silly_tavern.world_info.explanation import Explanation
from tavernkit.silly_tavern.world_info.hashing import entry_hash, hashed_json, string_hash
from tavernkit.silly_tavern.world_info.haystack import Origin, Piece
from tavernkit.silly_tavern.world_info.importers import embedded_book_name, import_world, sanitize_filename, world_name
from tavernkit.silly_tavern.world_info.matching import KeyMatch
from tavernkit.silly_tavern.world_info.placement import DepthGroup, ExampleEntry, PlacedEntry, Placement, Position
from tavernkit.silly_tavern.world_info.reasons import Reason, Verdict
from tavernkit.silly_tavern.world_info.result import ActivatedEntry, WorldInfoResult
from tavernkit.silly_tavern.world_info.scan import Pass
from tavernkit.silly_tavern.world_info.scan_input import (
    ChatLine,
    ScanData,
    ScanInput,
    ScanPrompt,
    Speaker,
    scan_injects,
    scan_list,
)
from tavernkit.silly_tavern.world_info.selection import (
    SelectedBooks,
    character_book_names,
    select_books,
    sorted_entries,
)
from tavernkit.silly_tavern.world_info.settings import CharacterLore, WorldInfoSettings, character_lore

__all__ = [
    "ActivatedEntry",
    "CharacterFilter",
    "CharacterLore",
    "ChatLine",
    "CompiledBooks",
    "DepthGroup",
    "Entry",
    "ExampleEntry",
    "Explanation",
    "KeyMatch",
    "Origin",
    "Pass",
    "PassType",
    "Piece",
    "PlacedEntry",
    "Placement",
    "Position",
    "Reason",
    "ScanData",
    "ScanInput",
    "ScanPrompt",
    "SelectedBooks",
    "Speaker",
    "Verdict",
    "WorldBook",
    "WorldInfoEngine",
    "WorldInfoResult",
    "WorldInfoSettings",
    "add_missing_fields",
    "character_book_names",
    "character_lore",
    "duplicate_entry",
    "embedded_book_name",
    "entry_hash",
    "hashed_json",
    "import_world",
    "new_entry",
    "sanitize_filename",
    "scan_injects",
    "scan_list",
    "select_books",
    "sorted_entries",
    "split_keys",
    "string_hash",
    "world_name",
]
