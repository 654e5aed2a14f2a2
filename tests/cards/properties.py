"""What must hold for any card: checks and the values they are tried with, shared by the tests and the fuzz runs."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from hypothesis import strategies as st

from tavernkit._text.js_values import join_surrogates
from tavernkit.cards import (
    Asset,
    Bundle,
    CardVersion,
    Character,
    CharacterBook,
    Format,
    Module,
    convert,
    load,
    save,
    to_bytes,
    validate,
)
from tavernkit.cards._byaf import from_backyard, to_backyard
from tavernkit.cards._json_text import decode_base64, dump_json, parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._risum import rpack_decode, rpack_encode
from tavernkit.cards._yaml_card import dump_yaml, parse_yaml
from tavernkit.errors import WarningLog

CARD_FORMATS = tuple(each for each in Format if each is not Format.RISUM)

any_texts = st.text(st.characters(exclude_categories=()), max_size=20).map(join_surrogates)
"""Lone surrogates too: JSON can hold them, YAML cannot."""
texts = st.text(max_size=40) | any_texts
whole_texts = st.text(max_size=40)

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
yaml_values = st.recursive(
    st.none() | st.booleans() | numbers | whole_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(whole_texts, inner, max_size=4),
    max_leaves=10,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have some of these fields, and unknown ones."""
    known = st.fixed_dictionaries({}, optional=fields)
    return st.builds(lambda unknown, stated: {**unknown, **stated}, json_objects, known)


entries = objects(
    keys=st.lists(texts, max_size=3),
    content=texts,
    extensions=json_objects,
    enabled=st.booleans(),
    insertion_order=st.integers(-1000, 1000),
    use_regex=st.booleans(),
    constant=st.booleans(),
    id=st.integers() | texts,
    secondary_keys=st.lists(texts, max_size=2),
)
books = objects(
    name=texts,
    scan_depth=st.integers(0, 100),
    extensions=json_objects,
    entries=st.lists(entries, max_size=3),
)
asset_entries = objects(type=texts, uri=texts, name=texts, ext=texts)

V1_KEYS = ("name", "description", "personality", "scenario", "first_mes", "mes_example")
v1_fields: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(V1_KEYS, texts)
v2_fields: dict[str, st.SearchStrategy[Any]] = v1_fields | {
    "creator_notes": texts,
    "system_prompt": texts,
    "post_history_instructions": texts,
    "alternate_greetings": st.lists(texts, max_size=3),
    "tags": st.lists(texts, max_size=3),
    "creator": texts,
    "character_version": texts,
    "extensions": json_objects,
}
v3_fields: dict[str, st.SearchStrategy[Any]] = v2_fields | {"group_only_greetings": st.lists(texts, max_size=3)}

v1_cards = st.fixed_dictionaries(v1_fields)


def specced(
    spec: str, version: str, fields: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """Whole cards of a version."""
    data = st.fixed_dictionaries(fields, optional=optional)
    return data.map(lambda data: {"spec": spec, "spec_version": version, "data": data})


v2_cards = specced("chara_card_v2", "2.0", v2_fields, {"character_book": books})
v3_cards = specced(
    "chara_card_v3",
    "3.0",
    v3_fields,
    {
        "character_book": books,
        "assets": st.lists(asset_entries, max_size=2),
        "nickname": texts,
        "creator_notes_multilingual": st.dictionaries(texts, texts, max_size=2),
        "source": st.lists(texts, max_size=2),
        "creation_date": st.integers(0, 2**40),
        "modification_date": st.integers(0, 2**40),
    },
)
odd_cards = st.builds(
    lambda beside, data: {**beside, "spec": "chara_card_v3", "spec_version": "3.0", "data": {**data, "name": "Odd"}},
    json_objects,
    st.dictionaries(st.sampled_from(sorted(v3_fields)) | texts, json_values, max_size=8),
)
"""Cards whose fields may be anything."""
cards = v1_cards | v2_cards | v3_cards | odd_cards


def for_format(card: dict[str, Any], format_: Format) -> dict[str, Any]:
    """YAML has no lone surrogates."""
    if format_ is not Format.YAML:
        return card
    text = dump_json(card)
    return json.loads(
        re.sub(r"\\\\|\\ud[89a-f][0-9a-f]{2}", lambda found: found[0] if found[0] == "\\\\" else "?", text)
    )


def check_round_trip(card: dict[str, Any], format_: Format) -> None:
    card = for_format(card, format_)
    character = Character.from_card(card, warn=WarningLog())
    assert character.to_card() == card
    expected = character
    if format_ in (Format.CHARX, Format.JPEG):
        expected, _ = convert(character, "v3")
    assert load(to_bytes(character, format_)).card == expected


def check_saving_is_stable(card: dict[str, Any], format_: Format) -> None:
    card = for_format(card, format_)
    first = to_bytes(Character.from_card(card, warn=WarningLog()), format_)
    again = to_bytes(load(first), format_)
    assert load(again).card == load(first).card
    assert to_bytes(load(again), format_) == again


def check_any_unicode_in_json(value: Any) -> None:
    text = dump_json(value)
    assert parse_json(text.encode(), what="test", warn=WarningLog()) == value


def check_yaml(value: Any) -> None:
    assert parse_yaml(dump_yaml(value, WarningLog()).encode(), DEFAULT_LIMITS, WarningLog()) == value


def check_edit_survives(card: dict[str, Any], format_: Format, name: str, greetings: list[str]) -> None:
    card = for_format(card, format_)
    character = Character.from_card(card, warn=WarningLog())
    edited = character.replace(name=name, alternate_greetings=greetings)
    loaded = load(to_bytes(edited, format_)).character
    assert (loaded.name, loaded.alternate_greetings) == (name, tuple(greetings))
    assert loaded.description == character.description


def check_versions(card: dict[str, Any], version: CardVersion) -> None:
    character = Character.from_card(card, warn=WarningLog())
    there, _ = convert(character, version)
    back, _ = convert(there, character.version)
    assert {key: value for key, value in back.to_card().items() if key != "data"} == {
        key: value for key, value in card.items() if key != "data"
    }
    assert _full(back) == _full(character)


def _full(character: Character) -> tuple[Any, ...]:
    """All typed fields: an upgrade may write defaults that were not stated."""
    fields = (
        "name description personality scenario first_mes mes_example creator_notes system_prompt "
        "post_history_instructions alternate_greetings tags creator character_version extensions nickname "
        "creator_notes_multilingual source group_only_greetings creation_date modification_date"
    )
    return tuple(getattr(character, name) or None for name in fields.split())


assets = st.lists(
    st.builds(
        lambda data, type_, name, ext: Asset.from_bytes(data, type=type_, name=name, ext=ext),
        st.binary(max_size=60),
        st.sampled_from(["emotion", "background", "icon", "x_other"]),
        whole_texts,
        st.sampled_from(["png", "webp", "mp3", "", "unknown"]),
    ),
    max_size=4,
)


def check_assets(card: dict[str, Any], added: list[Asset], format_: Format) -> None:
    card = for_format(card, format_)
    card["data"].pop("assets", None)
    bundle = Bundle(card=Character.from_card(card, warn=WarningLog()), assets=tuple(added))
    loaded = load(to_bytes(bundle, format_))
    kept = [(asset.type, asset.name, asset.read()) for asset in loaded.assets if asset.available]
    for asset in added:
        assert (asset.type, asset.name, asset.read()) in kept
    again = load(to_bytes(loaded, format_))
    assert [asset.read() for asset in again.assets] == [asset.read() for asset in loaded.assets]
    assert again.card == loaded.card


modules = objects(
    name=texts,
    description=texts,
    id=texts,
    lorebook=st.lists(json_objects, max_size=3),
    regex=st.lists(json_objects, max_size=3),
    trigger=st.lists(json_objects, max_size=3),
).map(lambda module: {key: value for key, value in module.items() if key not in ("assets", "type")})


def check_module(raw: dict[str, Any], added: list[Asset]) -> None:
    module = Module.from_json(raw, warn=WarningLog()).replace(assets=tuple(added))
    out = io.BytesIO()
    save(Bundle(module=module), out, format="risum")
    loaded = load(out.getvalue()).module
    assert loaded is not None
    assert {key: value for key, value in loaded.to_json().items() if key != "assets"} == raw
    assert [(asset.name, asset.ext, asset.read()) for asset in loaded.assets] == [
        (asset.name, asset.ext, asset.read()) for asset in added
    ]


def check_validator_never_fails(card: Any) -> None:
    for problem in validate(card):
        assert problem.pointer == "" or problem.pointer.startswith("/")
        assert problem.message
        assert problem.expected


def check_small_codecs(data: bytes, text: str) -> None:
    assert rpack_decode(rpack_encode(data)) == data
    assert isinstance(decode_base64(data), bytes)
    log = WarningLog()
    written = to_backyard(text, "test", log)
    assert log.messages or from_backyard(written) == text


def check_book(raw: dict[str, Any]) -> None:
    assert CharacterBook.from_json(raw, warn=WarningLog()).to_json() == raw
