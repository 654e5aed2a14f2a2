"""The JSON schema of cards, held against cards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.cards import CardVersion, Character, card_schema, convert
from tavernkit.cards._character import CARD_FIELDS
from tests.cards.files import FILES

KINDS: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def problems(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """What the schema's own few words refuse."""
    if "anyOf" in schema:
        tries = [problems(value, each, where) for each in schema["anyOf"]]
        return [] if [] in tries else tries[0]
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if kinds and not any(isinstance(value, KINDS[kind]) for kind in kinds):
        return [f"{where} is no {kinds}"]
    found = [f"{where} is {value!r}" for word in ("const",) if word in schema and schema[word] != value]
    found += [f"{where} is {value!r}" for word in ("enum",) if word in schema and value not in schema[word]]
    if isinstance(value, dict):
        found += [f"{where}/{key} is missing" for key in schema.get("required", ()) if key not in value]
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            found += problems(item, inner, f"{where}/{key}")
    if isinstance(value, list):
        found += [
            each for i, item in enumerate(value) for each in problems(item, schema.get("items", {}), f"{where}/{i}")
        ]
    return found


@pytest.mark.parametrize(
    ("file", "version"),
    [("v1.json", "v1"), ("v2.json", "v2"), ("v2_book.json", "v2"), ("v3.json", "v3"), ("v3_book.json", "v3")],
)
def test_a_card_fits_the_schema_of_its_version(file: str, version: CardVersion) -> None:
    card = json.loads((FILES / file).read_text())
    assert problems(card, card_schema(version)) == []


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_what_we_write_fits_the_schema(version: CardVersion) -> None:
    card = json.loads((FILES / "v3_book.json").read_text())
    converted, _ = convert(Character.from_card(card), version)
    assert problems(converted.to_card(), card_schema(version)) == []
    assert problems(Character(name="Ida", version=version).to_card(), card_schema(version)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tags": "a"}, "/data/tags is no ['array']"),
        ({"nickname": 5}, "/data/nickname is no ['string']"),
        ({"assets": [{"type": "icon"}]}, "/data/assets/0/uri is missing"),
        ({"character_book": {"entries": []}}, "/data/character_book/extensions is missing"),
    ],
)
def test_a_card_of_the_wrong_form_does_not(change: dict[str, Any], problem: str) -> None:
    card = json.loads((FILES / "v3.json").read_text())
    card["data"] |= change
    assert problem in problems(card, card_schema())


def test_each_version_has_the_fields_of_its_time() -> None:
    data: Any = [card_schema("v1"), *(card_schema(v)["properties"]["data"] for v in ("v2", "v3"))]  # type: ignore[index,call-overload]
    names = [set(each["properties"]) for each in data]
    assert names[0] < names[1] < names[2] == {field.key for field in CARD_FIELDS}
    assert "use_regex" not in str(data[1])


def test_a_schema_is_the_callers_own() -> None:
    card_schema()["properties"]["data"]["properties"]["name"]["type"] = "x"  # type: ignore[index,call-overload]
    assert "'x'" not in str(card_schema())
