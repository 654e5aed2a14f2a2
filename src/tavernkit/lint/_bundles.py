"""Cards: the specification's requirements, the texts, the book and the scripts inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tavernkit.cards._validation import validate
from tavernkit.cards._validation_rules import Severity
from tavernkit.lint._books import DEFAULT_BUDGET, lint_character_book
from tavernkit.lint._finding import Finding
from tavernkit.lint._lorebooks import lint_lorebook
from tavernkit.lint._scripts import lint_regex_scripts
from tavernkit.lint._texts import Language, lint_head_text, lint_text

if TYPE_CHECKING:
    from tavernkit.cards import Bundle, Character

FIXABLE = frozenset({"MISSING_FIELD", "BLANKS_AROUND_KEY"})
"""Codes of the validator that ``tavernkit.lint._fixes`` can repair."""

SAID_OF_THE_BOOK = frozenset({"NEVER_ACTIVE"})
"""Codes of the validator for problems that ``tavernkit.lint._books`` reports in more detail as NEVER_FIRES."""

_TEXTS = (
    "description",
    "personality",
    "scenario",
    "first_mes",
    "mes_example",
    "system_prompt",
    "post_history_instructions",
)

_HEAD_TEXTS = frozenset({"description", "personality", "scenario", "mes_example", "system_prompt"})
"""Fields that come before the chat in every prompt."""


def lint_bundle(bundle: Bundle, *, budget: int = DEFAULT_BUDGET, language: Language = "any") -> Iterator[Finding]:
    """Check a loaded card file.

    Args:
        bundle: The loaded file.
        budget: Token budget of the lore; books that may need more are reported.
        language: The program whose macros the texts use; ``any`` decides for each text.
    """
    for problem in validate(bundle):
        if problem.code in SAID_OF_THE_BOOK:
            continue
        yield Finding(
            where=problem.pointer or "/",
            message=problem.message,
            severity=problem.severity,
            code=problem.code,
            hint=f"expected: {problem.expected}" if problem.expected else "",
            fixable=problem.code in FIXABLE,
        )
    if bundle.card is not None:
        yield from _character(bundle.card, language)
    for book in bundle.books:
        where = "/data" if bundle.card is None else "/data/character_book"
        yield from lint_character_book(book.to_json(), where, budget=budget, language=language)
    if bundle.module is not None:
        yield from lint_lorebook(bundle.module.lorebook, "/module/lorebook", budget=budget)
        yield from lint_regex_scripts(bundle.module.regex, "/module/regex")


def _character(card: Character, language: Language) -> Iterator[Finding]:
    for name in _TEXTS:
        yield from lint_text(str(getattr(card, name)), f"/data/{name}", language)
        if name in _HEAD_TEXTS:
            yield from lint_head_text(str(getattr(card, name)), f"/data/{name}")
    for index, greeting in enumerate(card.alternate_greetings):
        yield from lint_text(greeting, f"/data/alternate_greetings/{index}", language)
    for name, what in (("system_prompt", "main prompt"), ("post_history_instructions", "post-history instructions")):
        text = str(getattr(card, name))
        if text.strip() and "{{original}}" not in text.lower():
            yield Finding(
                where=f"/data/{name}",
                message=f"replaces the user's {what} completely",
                severity=Severity.INFO,
                code="REPLACES_PROMPT",
                hint="{{original}} keeps the user's text at that place",
            )
    yield from lint_regex_scripts(card.extensions.get("regex_scripts"), "/data/extensions/regex_scripts")
