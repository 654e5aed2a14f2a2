"""Parse trees of texts with macros."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._macros import MAX_TREE_DEPTH, MAX_TREE_NODES, TreeNode
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._macros.tree import macro_tree

ENGINE = MacroEngine()


def tree(text: str) -> TreeNode:
    return macro_tree(ENGINE, text, MacroEnvironment(user_name="Ann", character_name="Bel"))


def outline(node: TreeNode, text: str) -> str:
    """The tree on one line: kinds, names and, for what has no parts, the text."""
    inside = " ".join(outline(child, text) for child in node.children) or repr(text[node.start : node.end])
    return f"{node.kind}{' ' + node.name if node.name else ''}({inside})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi", "document(text('Hi'))"),
        ("{{char}}!", "document(macro char('{{char}}') text('!'))"),
        (
            "{{setvar::x::{{char}}!}}",
            "document(macro setvar(argument('x') argument(macro char('{{char}}') text('!'))))",
        ),
        (
            "{{if {{user}}}}a {{char}}{{else}}b{{/if}}.",
            (
                "document(block if(argument(macro user('{{user}}')) "
                "body(text('a ') macro char('{{char}}') macro else('{{else}}') text('b'))) text('.'))"
            ),
        ),
        ("{{.mood += {{char}}}}", "document(macro local mood +=(argument(macro char('{{char}}'))))"),
        ("{{user", "document(text('{{user'))"),
        ("{{/if}}", "document(tag if('{{/if}}'))"),
        # An older spelling, which the engine rewrites before it parses: offsets are those of the text as written.
        ("<USER> and {{char}}", "document(macro user('<USER>') text(' and ') macro char('{{char}}'))"),
    ],
)
def test_a_tree_is_what_the_parser_reads(text: str, expected: str) -> None:
    assert outline(tree(text), text) == expected


def test_trees_are_bounded() -> None:
    def count(node: TreeNode) -> int:
        return 1 + sum(map(count, node.children))

    def depth(node: TreeNode) -> int:
        return 1 + max(map(depth, node.children), default=0)

    assert count(tree("{{char}}" * 20_000)) <= MAX_TREE_NODES + 1
    assert depth(tree("{{upper::" * 500 + "a" + "}}" * 500)) <= 2 * MAX_TREE_DEPTH + 2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["{{", "}}", "::", "if ", "char", "/if", "else", ".x", "=", "a", " ", "<USER>", "🦊"])))
def test_parts_of_a_tree_follow_each_other(pieces: list[str]) -> None:
    text = "".join(pieces)

    def check(node: TreeNode) -> None:
        at = node.start
        for child in node.children:
            assert at <= child.start <= child.end <= node.end
            at = child.end
            check(child)

    check(tree(text))
