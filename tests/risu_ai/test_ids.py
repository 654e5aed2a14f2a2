"""Ids of things that have none."""

from __future__ import annotations

import uuid

import pytest

from tavernkit.cards import load
from tavernkit.risu_ai import build
from tavernkit.risu_ai._objects import made_id


def test_ids_are_the_same_for_the_same_texts_and_differ_otherwise() -> None:
    assert made_id("card", "Mira", "") == made_id("card", "Mira", "")
    assert len({made_id("card", "Mira", ""), made_id("card", "Mira"), made_id("member", "Mira", "")}) == 3


@pytest.mark.parametrize("text", ["", "a\nb", "é😀", "half \ud83d"])
def test_ids_are_uuids_of_version_5(text: str) -> None:
    namespace = uuid.UUID("0d2d4f3c-0f4f-4d51-8a37-6a4d0f0f9b7e")
    for number in range(20):
        name = f"message\n{number}\n{text}".encode("utf-8", "replace").decode()
        assert made_id("message", number, text) == str(uuid.uuid5(namespace, name))


def test_a_card_with_half_a_character_in_its_name_can_be_built() -> None:
    bundle = load(b'{"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "\\ud83d"}}', warn=print)
    assert build(character=bundle.character, message="Hi").to_messages()
