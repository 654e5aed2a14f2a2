from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import Persona, Settings
from tavernkit.silly_tavern._files.personas import ChosenPersona, choose_persona

AVATARS = ("ann.png", "bob.png", "mira.png", "zoe.png")


def settings(**power_user: Any) -> Settings:
    return Settings.from_json(
        {
            "username": "Mira",
            "user_avatar": "mira.png",
            "power_user": {
                "persona_description": "live text",
                "personas": {"mira.png": "Mira M.", "zoe.png": "Zoe", "ann.png": "Ann"},
                "persona_descriptions": {
                    "ann.png": {"description": "Ann is here.", "connections": [{"type": "x", "id": "Lyra.png"}]},
                    "zoe.png": {"description": "A diver.", "position": 4, "depth": 3, "role": 1, "lorebook": "Deep"},
                },
                **power_user,
            },
        }
    )


def chosen(lock: object = None, connected_to: str | None = None, **power_user: Any) -> ChosenPersona:
    return choose_persona(settings(**power_user), avatars=AVATARS, lock=lock, connected_to=connected_to)


def test_the_chats_lock_wins_and_brings_description_and_place():
    found = chosen("zoe.png", "Lyra.png", default_persona="ann.png")
    assert (found.name, found.avatar, found.reason) == ("Zoe", "zoe.png", "the chat is locked to it")
    persona = found.persona
    assert (persona.description, persona.place, persona.depth, persona.role) == ("A diver.", 4, 3, 1)
    assert persona.lorebook == "Deep"


def test_a_lock_to_a_file_that_is_gone_is_dropped():
    assert chosen("gone.png").name == "Mira"


def test_connections_come_before_the_default_persona():
    assert chosen(None, "Lyra.png", default_persona="zoe.png").name == "Ann"
    assert chosen(None, "Bram.png", default_persona="zoe.png").name == "Zoe"
    assert chosen(None, "Bram.png").name == "Mira"


def test_of_several_connections_the_first_is_taken_unless_the_user_is_asked():
    both = {
        avatar: {"description": avatar, "connections": [{"type": "character", "id": "Lyra.png"}]}
        for avatar in ("zoe.png", "ann.png")
    }
    assert chosen(None, "Lyra.png", persona_descriptions=both).name == "Zoe"
    asked = chosen(None, "Lyra.png", persona_descriptions=both, persona_allow_multi_connections=True)
    assert asked.name == "Mira"


def test_the_persona_in_use_keeps_its_live_copy():
    found = chosen("mira.png", persona_descriptions={"mira.png": {"description": "stored text"}})
    assert (found.name, found.persona.description) == ("Mira", "live text")


def test_an_avatar_without_a_name_changes_only_the_picture():
    found = chosen("bob.png")
    assert (found.avatar, found.name, found.persona.description) == ("bob.png", "Mira", "live text")


def test_the_first_avatar_is_taken_when_the_one_in_use_has_no_file():
    found = choose_persona(settings(), avatars=("ann.png", "zoe.png"))
    assert (found.avatar, found.name) == ("ann.png", "Ann")
    assert choose_persona(settings(), avatars=()).name == "Mira"


@pytest.mark.parametrize(("position", "place"), [(0, 0), (1, 0), (4, 4), ("4", 9), (9, 9), (None, 0), (2.5, 9)])
def test_stored_positions(position: object, place: int):
    stored = {"zoe.png": {"description": "d", "position": position}}
    assert chosen("zoe.png", persona_descriptions=stored).persona.place == place


def test_a_description_without_a_place_gets_the_usual_one():
    stored = {"zoe.png": {"description": "d", "depth": None, "role": None}}
    persona = chosen("zoe.png", persona_descriptions=stored).persona
    assert (persona.place, persona.depth, persona.role) == (0, 2, 0)


@pytest.mark.parametrize("odd", [None, 3, "text", [], {"zoe.png": 3}, {"zoe.png": {"connections": [3, {"id": {}}]}}])
def test_odd_descriptions_change_nothing(odd: object):
    assert chosen(None, "Lyra.png", persona_descriptions=odd, personas=odd).name == "Mira"


def test_a_persona_at_an_unknown_position_is_nowhere():
    assert Persona("A traveller.", position="top").place == 9
