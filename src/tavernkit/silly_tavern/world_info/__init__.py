"""World Info: lorebooks as SillyTavern reads, scans and explains them."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.silly_tavern.string_hash import string_hash as string_hash
    from tavernkit.silly_tavern.world_info.book import WorldBook as WorldBook
    from tavernkit.silly_tavern.world_info.candidates import PassType as PassType
    from tavernkit.silly_tavern.world_info.compiled import CompiledBooks as CompiledBooks
    from tavernkit.silly_tavern.world_info.editing import add_missing_fields as add_missing_fields
    from tavernkit.silly_tavern.world_info.editing import duplicate_entry as duplicate_entry
    from tavernkit.silly_tavern.world_info.editing import new_entry as new_entry
    from tavernkit.silly_tavern.world_info.editing import split_keys as split_keys
    from tavernkit.silly_tavern.world_info.engine import WorldInfoEngine as WorldInfoEngine
    from tavernkit.silly_tavern.world_info.entry import Entry as Entry
    from tavernkit.silly_tavern.world_info.explanation import Explanation as Explanation
    from tavernkit.silly_tavern.world_info.fields import CharacterFilter as CharacterFilter
    from tavernkit.silly_tavern.world_info.hashing import entry_hash as entry_hash
    from tavernkit.silly_tavern.world_info.hashing import hashed_json as hashed_json
    from tavernkit.silly_tavern.world_info.haystack import Origin as Origin
    from tavernkit.silly_tavern.world_info.haystack import Piece as Piece
    from tavernkit.silly_tavern.world_info.importers import embedded_book_name as embedded_book_name
    from tavernkit.silly_tavern.world_info.importers import import_world as import_world
    from tavernkit.silly_tavern.world_info.importers import sanitize_filename as sanitize_filename
    from tavernkit.silly_tavern.world_info.importers import world_name as world_name
    from tavernkit.silly_tavern.world_info.matching import KeyMatch as KeyMatch
    from tavernkit.silly_tavern.world_info.placement import DepthGroup as DepthGroup
    from tavernkit.silly_tavern.world_info.placement import ExampleEntry as ExampleEntry
    from tavernkit.silly_tavern.world_info.placement import PlacedEntry as PlacedEntry
    from tavernkit.silly_tavern.world_info.placement import Placement as Placement
    from tavernkit.silly_tavern.world_info.placement import Position as Position
    from tavernkit.silly_tavern.world_info.reasons import Reason as Reason
    from tavernkit.silly_tavern.world_info.reasons import Verdict as Verdict
    from tavernkit.silly_tavern.world_info.result import ActivatedEntry as ActivatedEntry
    from tavernkit.silly_tavern.world_info.result import WorldInfoResult as WorldInfoResult
    from tavernkit.silly_tavern.world_info.scan import Pass as Pass
    from tavernkit.silly_tavern.world_info.scan_input import ScanData as ScanData
    from tavernkit.silly_tavern.world_info.scan_input import ScanInput as ScanInput
    from tavernkit.silly_tavern.world_info.scan_input import Speaker as Speaker
    from tavernkit.silly_tavern.world_info.selection import SelectedBooks as SelectedBooks
    from tavernkit.silly_tavern.world_info.selection import character_book_names as character_book_names
    from tavernkit.silly_tavern.world_info.selection import list_entries as list_entries
    from tavernkit.silly_tavern.world_info.selection import select_books as select_books
    from tavernkit.silly_tavern.world_info.settings import CharacterLore as CharacterLore
    from tavernkit.silly_tavern.world_info.settings import WorldInfoSettings as WorldInfoSettings
    from tavernkit.silly_tavern.world_info.settings import character_lore as character_lore
    from tavernkit.silly_tavern.world_info.vectors import forced_entry as forced_entry
    from tavernkit.silly_tavern.world_info.vectors import vectorized_entries as vectorized_entries

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".book": ("WorldBook",),
        "..string_hash": ("string_hash",),
        ".candidates": ("PassType",),
        ".compiled": ("CompiledBooks",),
        ".editing": (
            "add_missing_fields",
            "duplicate_entry",
            "new_entry",
            "split_keys",
        ),
        ".engine": ("WorldInfoEngine",),
        ".entry": ("Entry",),
        ".fields": ("CharacterFilter",),
        ".explanation": ("Explanation",),
        ".hashing": (
            "entry_hash",
            "hashed_json",
        ),
        ".haystack": (
            "Origin",
            "Piece",
        ),
        ".importers": (
            "embedded_book_name",
            "import_world",
            "sanitize_filename",
            "world_name",
        ),
        ".matching": ("KeyMatch",),
        ".placement": (
            "DepthGroup",
            "ExampleEntry",
            "PlacedEntry",
            "Placement",
            "Position",
        ),
        ".reasons": (
            "Reason",
            "Verdict",
        ),
        ".result": (
            "ActivatedEntry",
            "WorldInfoResult",
        ),
        ".scan": ("Pass",),
        ".scan_input": (
            "ScanData",
            "ScanInput",
            "Speaker",
        ),
        ".selection": (
            "SelectedBooks",
            "character_book_names",
            "select_books",
            "list_entries",
        ),
        ".settings": (
            "CharacterLore",
            "WorldInfoSettings",
            "character_lore",
        ),
        ".vectors": (
            "forced_entry",
            "vectorized_entries",
        ),
    },
)
