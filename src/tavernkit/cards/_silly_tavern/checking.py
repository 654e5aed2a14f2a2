"""SillyTavern's own check of cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_number, truthy
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._character import REQUIRED


@dataclass(frozen=True, slots=True)
class CardCheck:
    """What SillyTavern thinks of a card."""

    version: Literal[1, 2, 3] | None
    """The first version of the format that the card is valid for; None if SillyTavern refuses it."""
    last_error: str | None
    """The last check that failed, such as a missing field; None for a valid V1 card."""


def check_card(card: Mapping[str, object]) -> CardCheck:
    """Check the JSON of a card as SillyTavern does when attributes are merged into it: as V1, then V2, then V3.

    ``tavernkit.cards.validate()`` finds more, and says what to do.
    """
    last_error = next((key for key in REQUIRED["v1"] if key not in card), None)
    if last_error is None:
        return CardCheck(1, None)
    problem = _v2_problem(card)
    if problem is None:
        return CardCheck(2, last_error)
    last_error, problem = problem, _v3_problem(card)
    return CardCheck(3, last_error) if problem is None else CardCheck(None, problem)


def _v2_problem(card: Mapping[str, object]) -> str | None:
    if card.get("spec") != "chara_card_v2":
        return "spec"
    if card.get("spec_version") != "2.0":
        return "spec_version"
    data = card.get("data")
    if not is_mapping(data):
        return "no_tavern_card_data"
    missing = next((key for key in REQUIRED["v2"] if key not in data), None)
    if missing is not None:
        return missing
    for key in ("alternate_greetings", "tags"):
        if not is_sequence(data[key]):
            return key
    return "extensions" if not _is_object_type(data["extensions"]) else _book_problem(data.get("character_book"))


def _book_problem(book: object) -> str | None:
    if not truthy(book):
        return None
    if not is_mapping(book) or "extensions" not in book or "entries" not in book:
        return "character_book"
    return None if _is_object_type(book["extensions"]) and is_sequence(book["entries"]) else "character_book"


def _v3_problem(card: Mapping[str, object]) -> str | None:
    if card.get("spec") != "chara_card_v3":
        return "spec"
    version = to_number(card.get("spec_version", UNDEFINED))
    if version < 3 or version >= 4:
        return "spec_version"
    data = card.get("data")
    return None if data is not None and _is_object_type(data) else "no_card_data"


def _is_object_type(value: object) -> bool:
    """Return True for what ``typeof`` calls an object, including null and arrays."""
    return value is None or is_mapping(value) or is_sequence(value)
