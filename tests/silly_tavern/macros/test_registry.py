"""Registering and describing macros."""

from __future__ import annotations

import pytest

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern._macros import (
    MacroArgument,
    MacroCall,
    MacroDefinition,
    MacroEngine,
    MacroEnvironment,
    MacroListArgument,
    MacroRegistry,
    default_registry,
    silly_tavern_registry,
)


def constant(_call: MacroCall) -> str:
    return "constant"


def test_every_macro_of_silly_tavern_is_there() -> None:
    registry = silly_tavern_registry()
    assert len(registry) == 105
    assert sum(len(each.all_aliases) for each in registry) == 31


def test_every_built_in_macro_is_described() -> None:
    for definition in default_registry().describe():
        assert definition.description.endswith("."), definition.name
        assert definition.category
        assert definition.usage.startswith("{{" + definition.name)


def test_descriptions_come_by_category_and_name() -> None:
    listed = [(each.category, each.name.lower()) for each in default_registry().describe()]
    assert listed == sorted(listed)


def test_a_decorator_registers_a_macro_with_its_documentation() -> None:
    registry = MacroRegistry()

    @registry.macro(
        "shout", aliases=("yell",), args=(MacroArgument("text"), MacroArgument("times", ("integer",), optional=True))
    )
    def shout(call: MacroCall) -> str:
        """The text in capitals.

        As often as is asked for.
        """
        return call.args[0].upper() * int(call.argument(1, "1"))

    definition = registry.get("SHOUT")
    assert definition is not None
    assert definition.description == "The text in capitals."
    assert definition.usage == "{{shout::text::[times]}}"
    engine = MacroEngine(registry)
    warnings: list[str] = []
    environment = MacroEnvironment()
    assert engine.expand("{{yell::ab}} {{shout::ab::2}} {{shout::ab::x}}", environment, warn=warnings.append) == (
        "AB ABAB {{shout::ab::x}}"
    )
    assert warnings == ["{{shout}} argument 'times' must be integer, not 'x' (at character 30)"]
    assert shout.__name__ == "shout"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "1st"},
        {"name": "a b"},
        {"name": ""},
        {"name": "a", "aliases": ("A",)},
        {"name": "a", "hidden_aliases": ("no way",)},
        {"name": "a", "handler": None},
        {"name": "a", "args": (MacroArgument("x", optional=True), MacroArgument("y"))},
        {"name": "a", "args": (MacroArgument("x", ("float",)),)},  # pyright: ignore[reportArgumentType]
        {"name": "a", "args": (MacroArgument("x", ()),)},
        {"name": "a", "list": MacroListArgument(min=-1)},
        {"name": "a", "list": MacroListArgument(min=3, max=2)},
    ],
)
def test_a_definition_that_cannot_work_is_refused_as_a_whole(wrong: dict[str, object]) -> None:
    registry = MacroRegistry()
    with pytest.raises(ConfigError):
        registry.register(**{"handler": constant, **wrong})  # pyright: ignore[reportArgumentType]
    assert len(registry) == 0


def test_a_later_registration_wins_with_a_warning() -> None:
    warnings: list[str] = []
    registry = MacroRegistry(warn=warnings.append)
    registry.register("a", constant)
    registry.register("b", lambda _call: "later", aliases=("A",))
    assert MacroEngine(registry).expand("{{a}}", MacroEnvironment()) == "later"
    assert len(warnings) == 1


def test_a_macro_is_removed_with_all_its_names() -> None:
    registry = default_registry()
    registry.remove("description")
    assert not registry.has("charDescription")
    assert registry.has("personality")


def test_a_copy_does_not_change_the_registry_it_was_made_of() -> None:
    registry = MacroRegistry([MacroDefinition(name="a", handler=constant)])
    twin = registry.copy()
    twin.register("b", constant)
    assert (len(registry), len(twin)) == (1, 2)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (MacroDefinition(name="a", handler=constant), "no arguments"),
        (MacroDefinition(name="a", handler=constant, args=[MacroArgument("x")]), "1 argument"),
        (MacroDefinition(name="a", handler=constant, args=[MacroArgument("x", optional=True)]), "0 to 1 arguments"),
        (MacroDefinition(name="a", handler=constant, list=MacroListArgument()), "any number of arguments"),
        (MacroDefinition(name="a", handler=constant, list=MacroListArgument(2)), "at least 2 arguments"),
        (
            MacroDefinition(name="a", handler=constant, args=[MacroArgument("x")], list=MacroListArgument(1, 2)),
            "2 to 3 arguments",
        ),
    ],
)
def test_the_number_of_arguments_is_told_in_words(definition: MacroDefinition, words: str) -> None:
    assert definition.arity == words
