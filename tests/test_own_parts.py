"""Macros, lore engines and token estimators of one's own are inputs of a build, on both platforms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.errors import ConfigError
from tests.risu_ai.building import scene as risu_scene
from tests.silly_tavern import scene


class Words:
    """Counts words, and remembers which models it was asked about."""

    def __init__(self) -> None:
        self.hints: set[str | None] = set()

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        self.hints.add(model_hint)
        return len(text.split())


class Quiet:
    """A lore engine that finds only what is in the newest message."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.scans = 0

    def scan(self, scan_input: Any) -> Any:
        self.scans += 1
        messages = list(scan_input.messages)
        kept = messages[:1] if isinstance(self._engine, st.WorldInfoEngine) else messages[-1:]
        return self._engine.scan(replace(scan_input, messages=kept))


def shouting() -> st.MacroRegistry:
    registry = st.default_registry()
    registry.register("shout", lambda call: call.args[0].upper(), args=[st.MacroArgument("text")])
    return registry


def test_a_silly_tavern_build_expands_with_the_registry_it_is_given():
    builder = st.Builder(**scene.inputs())
    given = builder.build(message="{{shout::hi}} {{user}}", macro_registry=shouting())
    assert scene.contents(given)[-1] == "HI Mira"
    assert scene.contents(builder.build(message="{{shout::hi}}"))[-1] == "{{shout::hi}}"


def test_the_engine_of_a_registry_is_kept_between_builds_and_sees_later_macros():
    builder, registry = st.Builder(**scene.inputs()), shouting()
    builder.build(message="{{shout::hi}}", macro_registry=registry)
    registry.register("wave", lambda call: "o/")
    assert scene.contents(builder.build(message="{{wave}}", macro_registry=registry))[-1] == "o/"
    assert builder.services.macros_of(registry) is builder.services.macros_of(registry)


def test_a_risu_build_expands_with_the_registry_it_is_given():
    registry = risu_ai.standard_registry().copy()
    registry.register("shout", lambda call: call.text(0).upper(), args=("text",))
    builder = risu_ai.Builder(**risu_scene.inputs(preset=risu_ai.Preset(main_prompt="{{shout::hi}} {{user}}")))
    assert builder.build(macro_registry=registry).blocks[0].content.startswith("HI Ann")
    assert builder.build().blocks[0].content.startswith("{{shout::hi}} Ann")
    assert builder.services.with_macros(registry) is builder.services.with_macros(registry)


def test_a_silly_tavern_build_asks_the_lore_engine_it_is_given():
    book = st.WorldBook.from_json(
        {"entries": {"0": {"uid": 0, "key": ["sit"], "content": "LORE", "position": 0}}}, name="Boats"
    )
    builder = st.Builder(**scene.inputs(books=[book]))
    assert "LORE" in " ".join(scene.contents(builder.build()))
    engine = Quiet(st.WorldInfoEngine())
    assert "LORE" not in " ".join(scene.contents(builder.build(lore_engine=engine)))
    assert engine.scans == 1


def test_a_risu_build_asks_the_lore_engine_it_is_given():
    lore = [{"key": "tower", "content": "LORE", "mode": "normal", "insertorder": 100}]
    chat = {"message": [{"role": "user", "data": "the tower"}, {"role": "user", "data": "well"}], "fmIndex": -1}
    character = risu_scene.character(globalLore=lore)
    builder = risu_ai.Builder(**risu_scene.inputs(character=character, history=chat))
    assert "LORE" in " ".join(message.content for message in builder.build().messages)
    engine = Quiet(risu_ai.LorebookEngine())
    assert "LORE" not in " ".join(message.content for message in builder.build(lore_engine=engine).messages)
    assert engine.scans == 1


@pytest.mark.parametrize("module", [st, risu_ai])
def test_a_build_counts_with_the_estimator_it_is_given(module: Any):
    given = scene.inputs() if module is st else risu_scene.inputs()
    words = Words()
    module.Builder(**given).build(message="one two three", token_estimator=words)
    assert words.hints


@pytest.mark.parametrize("name", ["macro_registry", "lore_engine", "token_estimator"])
@pytest.mark.parametrize("module", [st, risu_ai])
def test_what_cannot_take_such_a_place_is_refused(module: Any, name: str):
    with pytest.raises(ConfigError, match=name):
        module.Builder(**{name: 3})
