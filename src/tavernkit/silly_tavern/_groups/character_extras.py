"""Data of a character besides its card."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._world_info.book import WorldBook


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterExtras:
    """Books, tags and regex scripts of a group's member, used while the member speaks."""

    books: Sequence[WorldBook] = ()
    """Lorebooks linked to the member."""
    tags: Sequence[str] = ()
    """Tags of the member, for entries that are limited to some."""
    regex_scripts: RegexScripts | None = None
    """Regex scripts of the member's card; None for those of the build."""
