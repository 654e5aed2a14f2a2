from __future__ import annotations

from tavernkit.cards._risu_ai.character import convert_character_book
from tavernkit.risu_ai._lorebook.book import convert_entries, migrate_entries
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    match given["op"]:
        case "convert_external":
            return {"lorebook": convert_entries(given["entries"])}
        case "convert_charbook":
            book = convert_character_book(given["character_book"])
            return {"lorebook": book.lorebook, "loresettings": book.settings, "loreExt": book.extensions}
        case _:
            return {"lorebook": migrate_entries(given["lorebook"])}
