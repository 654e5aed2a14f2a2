from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.silly_tavern._scripts.regex_replacement import regex_from_string
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScript, RegexScripts
from tests.silly_tavern.test_regex_scripts import MACROS

pieces = st.sampled_from(
    ["/", "a", "b", "(", ")", "|", "$1", "$<n>", "(?<n>", "g", "i", "\\", "[", "]", "*", "{{char}}"]
)
patterns = st.lists(pieces, max_size=7).map("".join)
values = st.none() | st.booleans() | st.integers(-3, 9) | patterns | st.lists(st.integers(0, 6) | patterns, max_size=3)
scripts = st.fixed_dictionaries(
    {"findRegex": patterns, "replaceString": patterns, "placement": st.just([2])},
    optional=dict.fromkeys(("trimStrings", "substituteRegex", "minDepth", "maxDepth", "disabled", "id"), values),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(scripts, max_size=3), st.text("ab(/{} ", max_size=12), st.none() | st.integers(-1, 3))
def test_any_script_on_any_text_gives_text(scripts: list[dict[str, object]], text: str, depth: int | None) -> None:
    chosen = RegexScripts(tuple(map(RegexScript.from_json, scripts)))
    result = chosen.apply(text, 2, expand=MACROS, depth=depth, warn=lambda message: None)
    assert isinstance(result, str)
    assert text or not result


@settings(max_examples=200, deadline=None)
@given(patterns)
def test_any_pattern_is_a_regex_or_nothing(pattern: str) -> None:
    regex = regex_from_string(pattern)
    assert regex is None or regex.source in pattern


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=5) | scripts)
def test_scripts_are_written_as_they_were_read(script: dict[str, object]) -> None:
    assert RegexScript.from_json(script).to_json() == script
