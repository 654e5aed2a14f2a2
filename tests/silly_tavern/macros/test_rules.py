"""Rules of Macros 2.0 that the vectors show only apart from each other."""

from __future__ import annotations

import pytest

from tavernkit._values import Json
from tavernkit.cards import Character
from tavernkit.silly_tavern._macros import (
    ChatVariables,
    MacroArgument,
    MacroEngine,
    MacroEnvironment,
    Overrides,
    silly_tavern_registry,
)

REGISTRY = silly_tavern_registry()
REGISTRY.register("at", lambda call: f"@{call.offset}")
REGISTRY.register("flags", lambda call: f"<{call.flags}>")
REGISTRY.register("again", lambda call: call.resolve(call.args[0]), args=[MacroArgument("text")], delayed=True)
ENGINE = MacroEngine(REGISTRY)


def environment(**variables: Json) -> MacroEnvironment:
    return MacroEnvironment(
        user_name="Ann",
        character_name="Bel",
        character=Character(name="Bel", description="d{{addvar::n::1}}"),
        variables=ChatVariables({"variables": variables}, {}),
    )


def expand(text: str, given: MacroEnvironment | None = None, overrides: Overrides | None = None) -> str:
    return ENGINE.evaluate(text, given or environment(), overrides).text


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{user=1}}{{user用户}}{{reverse!::ab}}{{reverse!}}cd{{/reverse!}}", "AnnAnnbadc"),
        ("{{user}}a{{/user}}{{user}}{{/user}}b{{user}}", "{{user}}a{{/user}}{{user}}{{/user}}bAnn"),
        ("{{user}}{{if 1}}{{/user}}{{user}}{{/if}}", "{{user}}{{/user}}Ann"),
        ("{{if 0}}a{{user {{else}} b{{/if}}c", "c"),
        ("{{if 0}}a{{.b {{else}}c{{/if}}", "c"),
        ("{{if ! !0}}A{{else}}B{{/if}}{{if !}}C{{/if}}{{if::!::D{{else}}E}}", "BCD"),
        ("{{if trim}}A{{else}}B{{/if}}{{if space}}C{{/if}}{{if setvar}}D{{/if}}", "BCD"),
        ("{{if <USER>}}A{{/if}}{{if \\{}}B{{/if}}", "AB"),
        ("{{.x = {{/flags}}{{#/flags}}}}{{.x}}{{/flags}}", "</><#/>{{/flags}}"),
        ("{{//}}a{{//}}b{{///}}c{{///}}d{{//:: /e}}", "d{{//:: /e}}"),
        ("{{reverse::a{{.x++::}}}}[{{.x}}]", "{{reverse::a{{.x++::}}}}[]"),
        ("{{random::{{space}}::{{space}}}}|{{pick {{space}}a{{space}},a}}", " |a"),
    ],
)
def test_two_rules_at_once(text: str, expanded: str) -> None:
    assert expand(text) == expanded


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{if 1}}ab{{if 1}}cd{{at}}{{/if}}{{/if}}", "abcd@4"),
        ("xx{{if ! {{reverse::{{at}}}}}}{{else}}a{{at}}{{/if}}{{at}}", "xxa@3@52"),
        ("🦊{{if 0}}{{else}}🦊{{at}}{{/if}}{{at}}", "🦊🦊@4@33"),
        ("<BOT>{{if 1}}<USER>{{at}}{{/if}}", "BelAnn@16"),
        ("{{.x = ab{{at}}}}{{.x}}{{.y ?? {{if::1:: {{at}}}}}}", "ab@9@31"),
        ("12{{again::{{again::ab {{at}}}}}}", "12ab @5"),
    ],
)
def test_offsets_in_pieces_count_from_the_call_that_expands_them(text: str, expanded: str) -> None:
    assert expand(text) == expanded


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{if {{.to}}}}A{{else}}B{{/if}}", "B"),
        ("{{if {{.name}}}}A{{else}}B{{/if}}", "B"),
        ("{{.x = {{.y++ {{user}} }}{{.x}}", "2Ann"),
        ("{{if description}}{{description}}{{/if}}{{description}}{{.n}}", "dd1"),
    ],
)
def test_what_a_condition_and_a_value_read(text: str, expanded: str) -> None:
    assert expand(text, environment(to=".off", off="OFF", name="noop", y="1")) == expanded


@pytest.mark.parametrize(
    ("text", "overrides", "expanded"),
    [
        ("{{if mine}}A{{else}}B{{/if}}", Overrides(macros={"mine": ""}), "A"),
        ("{{if user}}A{{else}}B{{/if}}", Overrides(macros={"user": ""}), "B"),
        ("{{user}}x{{/user}}", Overrides(macros={"user": lambda call: call.args}), "{{user}}x{{/user}}"),
        ("{{if original}}A{{else}}B{{/if}}[{{original}}]", Overrides(original="text"), "A[]"),
        ("{{if noop}}A{{else}}B{{/if}}{{.n ?? {{user}}}}", Overrides(post_process="[{}]".format), "[A][Ann]"),
    ],
)
def test_what_a_call_brings_along_counts_inside_of_conditions(text: str, overrides: Overrides, expanded: str) -> None:
    assert expand(text, overrides=overrides) == expanded


def test_an_error_in_a_block_is_reported_once_and_one_in_a_branch_twice() -> None:
    def kinds(text: str) -> list[str]:
        return [each.phase for each in ENGINE.evaluate(text, environment()).diagnostics if each.kind == "syntax"]

    assert kinds("{{reverse}}a{{user!}}b{{/reverse}}") == ["lexing"]
    assert kinds("{{if 1}}{{reverse}}a{{user!}}b{{/reverse}}{{/if}}") == ["lexing", "lexing"]
