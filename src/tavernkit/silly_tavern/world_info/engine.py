"""The World Info engine: compiles books once and scans with them."""

from __future__ import annotations

from tavernkit.silly_tavern.world_info.book import tell_problem
from tavernkit.silly_tavern.world_info.compiled import CompiledBooks
from tavernkit.silly_tavern.world_info.limits import COMPILED_BOOKS
from tavernkit.silly_tavern.world_info.result import WorldInfoResult
from tavernkit.silly_tavern.world_info.scan import Scan
from tavernkit.silly_tavern.world_info.scan_input import ScanInput
from tavernkit.silly_tavern.world_info.selection import SelectedBooks
from tavernkit.silly_tavern.world_info.settings import WorldInfoSettings
from tavernkit.values import LRUCache


class WorldInfoEngine:
    """Decides which entries of some books a chat calls up, as SillyTavern does.

    Books are compiled the first time they are scanned and kept for later scans, so that a scan costs about the text
    and what matches in it, however large the books are. One engine can be shared between threads.
    """

    def __init__(self, *, cache_size: int = COMPILED_BOOKS) -> None:
        self._compiled: LRUCache[tuple[SelectedBooks, float], CompiledBooks] = LRUCache(cache_size)

    def compile(self, books: SelectedBooks, settings: WorldInfoSettings) -> CompiledBooks:
        """Compile books ahead of a scan, or give what is known of them."""
        strategy = settings.character_strategy
        compiled = self._compiled.get_or_make((books, strategy), lambda: CompiledBooks(books, strategy))
        compiled.table(case_sensitive=settings.case_sensitive, whole_words=settings.match_whole_words)
        return compiled

    def scan(self, scan_input: ScanInput) -> WorldInfoResult:
        """Scan a chat."""
        compiled = self.compile(scan_input.books, scan_input.settings)
        for problem in compiled.problems:
            tell_problem(scan_input.warn, problem)
        for warning in compiled.warnings:
            scan_input.warn(warning)
        return WorldInfoResult.of(Scan(compiled, scan_input).run())
