"""Parse trees of texts with CBS, and what each part gave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._macros import MAX_TREE_DEPTH, MAX_TREE_NODES, TreeNode
from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.tree import evaluate_with_tree

CONTEXT = CBSContext(char="Bel", user="Ann")


def outline(node: TreeNode, text: str) -> str:
    """The tree on one line: kinds, names, values and, for what has no parts, the text."""
    inside = " ".join(outline(child, text) for child in node.children) or repr(text[node.start : node.end])
    name = f" {node.name}" if node.name else ""
    return f"{node.kind}{name}({inside}){'' if node.value is None else '=' + repr(node.value)}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi", "document(text('Hi'))"),
        ("{{char}}!", "document(macro char('{{char}}')='Bel' text('!'))"),
        ("<user> is <CHAR>", "document(macro user('<user>')='Ann' text(' is ') macro CHAR('<CHAR>')='Bel')"),
        (
            "{{upper::{{user}}!}}",
            "document(macro upper(text('upper::') macro user('{{user}}')='Ann' text('!'))='ANN!')",
        ),
        (
            "{{#if {{equal::{{user}}::Ann}}}}Hi {{char}}{{/if}}.",
            (
                "document(block if(tag if(text('#if ') macro equal(text('equal::') macro user('{{user}}')='Ann' "
                "text('::Ann'))='1') text('Hi ') macro char('{{char}}')='Bel' tag if('{{/if}}'))='Hi Bel' text('.'))"
            ),
        ),
        # The body of a block that turns out false is not evaluated.
        (
            "{{#if 0}}{{char}}{{/if}}",
            "document(block if(tag if('{{#if 0}}') macro char('{{char}}') tag if('{{/if}}'))='')",
        ),
        ("{{nonsense}}", "document(macro nonsense('{{nonsense}}'))"),
        ("{{? 1 + 2}}", "document(macro ?('{{? 1 + 2}}')='3')"),
        # What an each inserts has no place in the text.
        (
            "{{#each [1,2] as n}}{{slot::n}}{{/each}}{{user}}",
            (
                "document(block each(tag each('{{#each [1,2] as n}}') macro slot('{{slot::n}}') tag each('{{/each}}')) "
                "macro user('{{user}}')='Ann')"
            ),
        ),
        ("{{user", "document(unclosed(text('{{user')))"),
        ("{{#if 1}}a", "document(unclosed if(tag if('{{#if 1}}') text('a')))"),
    ],
)
def test_a_tree_is_what_the_scanner_reads(text: str, expected: str) -> None:
    _, tree = evaluate_with_tree(text, CONTEXT)
    assert outline(tree, text) == expected


def test_trees_are_bounded() -> None:
    def count(node: TreeNode) -> int:
        return 1 + sum(map(count, node.children))

    def depth(node: TreeNode) -> int:
        return 1 + max(map(depth, node.children), default=0)

    assert count(evaluate_with_tree("{{char}}" * 20_000, CONTEXT)[1]) <= MAX_TREE_NODES + 1
    assert depth(evaluate_with_tree("{{upper::" * 90 + "a" + "}}" * 90, CONTEXT)[1]) <= MAX_TREE_DEPTH + 2


_PIECES = [
    "{{",
    "}}",
    "{#",
    "#}",
    "::",
    "#if 1",
    "#if 0",
    "#each [1,2] as n",
    "/if",
    "upper",
    "char",
    "\n",
    "<user>",
    "🦊",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_PIECES)))
def test_a_text_comes_out_the_same_and_parts_follow_each_other(pieces: list[str]) -> None:
    text = "".join(pieces)
    result, tree = evaluate_with_tree(text, CONTEXT)
    assert result.text == CBSEngine().evaluate(text, CONTEXT).text

    def check(node: TreeNode) -> None:
        at = node.start
        for child in node.children:
            assert at <= child.start <= child.end <= node.end
            at = child.end
            check(child)

    check(tree)
