"""Inputs of builds that are of a wrong kind: programmers are told at once what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from tavernkit import Character, ConfigError, authoring, budget, lint, load, report, risu_ai, silly_tavern, vibe_tavern
from tavernkit.cards import Bundle
from tavernkit.prompt import Context
from tavernkit.stores import InMemoryVariablesStore


class Odd:
    """Something that no input takes."""


CARD = Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Aria"}})


@pytest.mark.parametrize("platform", [silly_tavern, risu_ai])
@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"user": "You"}, "user must be a User, such as User\\(name='Ann'\\), not str 'You'"),
        ({"character": "Aria"}, "character must be a Character"),
        ({"character": 5}, "character must be a Character"),
        ({"settings": {}}, "settings must be a Settings, not dict {}"),
        ({"preset": "x"}, "preset must be a Preset or None, not str 'x'"),
    ],
)
def test_both_platforms_say_what_to_pass(platform: Any, inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        platform.build(**{"character": CARD, **inputs})


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"group": "x"}, "group must be a Group or None, not str"),
        ({"books": "x"}, "books must be a list of WorldBooks, not str"),
        ({"chat_books": [5]}, "chat_books must be a list of WorldBooks, not list \\[5\\]"),
        ({"chat_metadata": 5}, "chat_metadata must be a ChatMetadata, a mapping or None, not int"),
        ({"character": Bundle()}, "contains none"),
    ],
)
def test_silly_tavern_says_what_to_pass(inputs: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"character": CARD, **inputs}
    with pytest.raises(ConfigError, match=told):
        silly_tavern.build(**given)


CONTEXTS = [silly_tavern.SillyTavernContext, risu_ai.RisuAIContext, vibe_tavern.VibeTavernContext]


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_input_of_a_context_is_typed(context: type[Context]) -> None:
    assert context.input_names() == set(get_type_hints(context.inputs_type))


@pytest.mark.parametrize(
    ("context", "name"), [(context, name) for context in CONTEXTS for name in sorted(context.input_names())]
)
def test_every_input_says_what_to_pass(context: type[Context], name: str) -> None:
    with pytest.raises(ConfigError, match=name.rstrip("s").replace("_", ".")):
        context.make(**{name: Odd()})


@pytest.mark.parametrize(
    ("context", "name", "told"),
    [
        (silly_tavern.SillyTavernContext, "stop_strings", "a list of texts"),
        (silly_tavern.SillyTavernContext, "tools", r"tools must be a list of \(a Tool or a mapping\)"),
        (silly_tavern.SillyTavernContext, "extension_prompts", r"a list of \(an ExtensionPrompt or a mapping\)"),
        (silly_tavern.SillyTavernContext, "forced_world_info", "a list of mappings"),
        (risu_ai.RisuAIContext, "modules", "a list of RisuModules"),
        (risu_ai.RisuAIContext, "members", "members must be a list of"),
    ],
)
def test_lists_say_what_to_put_in(context: type[Context], name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        context.make(**{name: [Odd()]})


def test_mappings_say_what_to_put_in() -> None:
    with pytest.raises(ConfigError, match="members must be a mapping of Characters or a list of Characters, not dict"):
        silly_tavern.SillyTavernContext.make(members={"a": Odd()})


def test_a_loaded_file_is_a_character_for_both() -> None:
    for platform in (silly_tavern, risu_ai):
        inputs: dict[str, Any] = {"message": "Hi"} if platform is silly_tavern else {}
        assert platform.build(character=Bundle(card=CARD), **inputs).to_messages() == (
            platform.build(character=CARD, **inputs).to_messages()
        )


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: load(b"{}", limits=5), "limits must be a Limits"),  # pyright: ignore[reportArgumentType]
        (lambda: lint.lint_file(None), "path must be text or a path"),  # pyright: ignore[reportArgumentType]
        (lambda: list(lint.lint_bundle(CARD)), "a loaded file, such as tk.load"),  # pyright: ignore[reportArgumentType]
        (lambda: authoring.diff_files("nothing.json", "nothing.json"), "there is no file 'nothing.json'"),
        (lambda: report.overview(CARD), "plan must be a Plan"),  # pyright: ignore[reportArgumentType]
        (lambda: report.render_html(CARD), "such as overview\\(plan\\)"),  # pyright: ignore[reportArgumentType]
        (lambda: budget.inspect_plan(CARD), "plan must be a Plan"),  # pyright: ignore[reportArgumentType]
        (lambda: budget.trim([], budget_tokens="5"), "budget_tokens must be a whole number"),  # pyright: ignore[reportArgumentType]
        (lambda: budget.trim([], token_estimator="x"), "token_estimator must be an Estimator"),  # pyright: ignore[reportArgumentType]
        (lambda: InMemoryVariablesStore({"gold": 3}), "'local'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_functions_say_what_to_pass(mistake: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        mistake()
