"""What holds for the linter and the report whatever the input."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import strategies as st

from tavernkit.lint import fix_file, lint_file, lint_text
from tavernkit.prompt import Block, Plan
from tavernkit.report import overview, render_html

texts = st.text(max_size=60) | st.sampled_from(
    ["{{user}}", "{{#if x}}", "{{/if}}", "{{if .x}}", "{{roll::1d6}}", "</script>", "{{{{", "}}", "/(a/", "{% if %}"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "uid", "key", "keysecondary", "comment", "content", "constant", "selective", "selectiveLogic", "order", "position",
    "probability", "useProbability", "group", "groupOverride", "delayUntilRecursion", "excludeRecursion", "outletName",
)  # fmt: skip
entries = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)
FILES = (
    "spec", "data", "name", "entries", "type", "prompts", "prompt_order", "story_string", "input_sequence", "findRegex",
    "first_mes", "promptTemplate", "openai_max_context", "character_book", "extensions",
)  # fmt: skip
files = (
    st.builds(
        lambda listed: {"entries": {str(i): each for i, each in enumerate(listed)}}, st.lists(entries, max_size=4)
    )
    | st.builds(lambda listed: {"type": "risu", "data": listed}, st.lists(entries | values, max_size=4))
    | st.dictionaries(st.sampled_from(FILES), values | st.just("chara_card_v2"), max_size=6)
    | values
)
languages = st.sampled_from(["any", "silly_tavern", "risu_ai"])


def check_linting_never_fails(value: object) -> None:
    """Any JSON is either fine or has findings; repairing it never breaks it and settles."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        path.write_text(json.dumps(value), encoding="utf-8", errors="surrogatepass")
        _, findings = lint_file(path)
        assert all(finding.message and finding.code for finding in findings)
        json.dumps([finding.to_dict() for finding in findings])
        fix_file(path)
        assert not fix_file(path)
        assert isinstance(json.loads(path.read_text(encoding="utf-8")), type(value))


def check_texts_have_places(text: str, language: str) -> None:
    """A place that is told lies inside the text."""
    for finding in lint_text(text, "/x", language):  # pyright: ignore[reportArgumentType]
        if finding.line is not None and finding.column is not None:
            lines = text.split("\n")
            assert 1 <= finding.line <= len(lines)
            assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1


def check_pages_hold_one_script(content: str, label: str) -> None:
    """Whatever a prompt holds, the page has one script element: its own."""
    block = Block(role="system", content=content, metadata={"source": {"kind": label, "reason": content}})
    page = render_html(overview(Plan(blocks=[block], count_tokens=len)), title=label, messages=[content])
    assert page.count("<script>") == 1
    assert page.count("</script>") == 1
