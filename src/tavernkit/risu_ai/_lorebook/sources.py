"""Where a chat's lore comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number, truthy
from tavernkit._values import is_mapping
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._lorebook.engine import LorebookSettings
from tavernkit.risu_ai._lorebook.entry import LorebookEntry
from tavernkit.risu_ai._lorebook.texts import LoreMessage


@dataclass(frozen=True, slots=True)
class LoreSources:
    """The entries of a chat in order, its messages, and the settings in force."""

    entries: Sequence[LorebookEntry]
    messages: Sequence[LoreMessage]
    settings: LorebookSettings


def lore_of(context: CBSContext, defaults: LorebookSettings | None = None, *, warn: Warn | None = None) -> LoreSources:
    """Collect the lore of the character, the chat and the enabled modules, with a character's own settings."""
    character = context.character
    books: list[tuple[str, Sequence[object]]] = []
    if character is not None:
        books.append(
            (f"{'group' if character.is_group else 'character'} {character.name}".strip(), character.lore or ())
        )
    books.append(("this chat", context.chat.local_lore))
    books += [(f"module {module.name or module.id}", module.lore) for module in context.enabled_modules]
    entries = [
        entry
        for name, book in books
        for number, raw in enumerate(book)
        if (entry := LorebookEntry.from_json(raw, warn=warn, where=f"entry {number} of {name}", book=name)) is not None
    ]
    own = character.raw.get("loreSettings") if character is not None else None
    return LoreSources(
        entries=entries,
        messages=[LoreMessage(message.role, message.data) for message in context.chat.messages],
        settings=_settings(own if is_mapping(own) else {}, defaults or LorebookSettings()),
    )


def _settings(own: Mapping[str, object], defaults: LorebookSettings) -> LorebookSettings:
    def number(name: str, default: float) -> float:
        value = own.get(name)
        return default if value is None else to_number(value)

    def flag(name: str, default: bool) -> bool:
        value = own.get(name)
        return default if value is None else truthy(value)

    return LorebookSettings(
        scan_depth=number("scanDepth", defaults.scan_depth),
        token_budget=number("tokenBudget", defaults.token_budget),
        full_word=flag("fullWordMatching", defaults.full_word),
        recursive=flag("recursiveScanning", defaults.recursive),
    )
