"""What holds for any text and any pattern."""

from __future__ import annotations

import contextlib
import math
from urllib.parse import unquote

from hypothesis import assume
from hypothesis import strategies as st

from tavernkit._text import js_values as js
from tavernkit._text import json_pointer
from tavernkit._text.coerce import language_tag
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_regex.cost import AnyText, CostModel
from tavernkit._text.js_regex.guard import PatternMeasures, TextMeasures
from tavernkit._text.js_regex.syntax import parse_pattern
from tavernkit._text.verbatim_masker import EscapeHatch, mask, unmask
from tavernkit.errors import ConfigError
from tests.text.reference_matcher import ReferenceMatcher, TooManySteps

texts = st.text(max_size=40)
# Surrogates included, but not the unassigned code points that stand for them in the engine.
any_texts = st.text(
    (st.characters() | st.characters(categories=["Cs"])).filter(lambda one: not "\U0005d800" <= one <= "\U0005dfff"),
    max_size=20,
)
numbers = st.floats() | st.integers(-(2**60), 2**60).map(float)

json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "2", "10", "é", "b/c~"]), inner),
    max_leaves=12,
)

# Patterns: small pieces that meet often, so that they match, overlap and backtrack.
atoms = st.sampled_from(
    ["a", "b", "c", ".", "\\w", "[ab]", "[^b]", "\\s", "[^]", "é", "[à-ý]", "^", "$", "\\b", "\\B", "\\1", "(?:)"]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?<=", "(?<!"])
    grouped = st.tuples(groups, inner).map(lambda pair: f"{pair[0]}{pair[1]})")
    counts = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{0}"])
    repeated = st.tuples(atoms.filter(lambda atom: atom not in ("^", "$", "\\b", "\\B")), counts).map("".join)
    repeated_group = st.tuples(st.sampled_from(["(", "(?:"]), inner, counts).map(lambda p: f"{p[0]}{p[1]}){p[2]}")
    sequence = st.lists(inner, min_size=2, max_size=3).map("".join)
    choice = st.lists(inner, min_size=2, max_size=3).map("|".join)
    return grouped | repeated | repeated_group | sequence | choice


patterns = st.recursive(atoms, _grow, max_leaves=8)
pattern_flags = st.sampled_from(["", "i", "m", "s", "ims"])
subjects = st.text("abc éÉ\n", max_size=8)
subjects_with_pairs = st.text("abc é\n😀😁\ud83d\ude00", max_size=8)

REFERENCE_STEPS = 20_000


def check_engine_is_the_reference(source: str, flags: str, text: str) -> None:
    """All matches are those of ECMAScript's algorithm, and no more steps than were foretold are taken for them."""
    text = js.join_surrogates(text)
    units = "".join(js.utf16_at(text, index) for index in range(js.utf16_length(text)))
    pattern = parse_pattern(source, flags)
    reference = ReferenceMatcher(pattern, units, REFERENCE_STEPS)
    try:
        expected = reference.find_all()
    except (TooManySteps, RecursionError):
        expected = None
    model = CostModel(pattern)
    bound = model.steps(PatternMeasures(TextMeasures(units), model.alphabet))
    assert reference.steps <= bound or reference.steps > REFERENCE_STEPS, (reference.steps, bound)
    assert bound <= model.steps(AnyText(len(units))) * 1.000001
    assume(expected is not None)
    if expected is None or bound == math.inf:
        return  # the engine may go round forever here, and that takes time
    found = JSRegex.compile(source, flags + "g").find_all(text, timeout=30)
    assert [(match.utf16_start, match.utf16_end) for match in found] == [spans[0] for spans in expected]
    for match, spans in zip(found, expected, strict=True):
        assert match.spans == tuple([span and tuple([js.python_index(text, at) for at in span]) for span in spans])
        assert match.groups == tuple([span and js.utf16_slice(text, *span) for span in spans[1:]])


def check_search_from_is_like_cutting(source: str, flags: str, text: str, start: int) -> None:
    """The first match from an offset on is the first of those that begin there, if none reaches across."""
    regex = JSRegex.compile(source, flags)
    if CostModel(parse_pattern(source, flags)).steps(AnyText(len(text) + 1)) == math.inf:
        return
    match = regex.search(text, min(start, len(text)), timeout=30)
    reference = ReferenceMatcher(parse_pattern(source, flags), text, REFERENCE_STEPS)
    try:
        everywhere = [found for at in range(min(start, len(text)), len(text) + 1) if (found := _at(reference, at))]
    except (TooManySteps, RecursionError):
        return
    assert (None if match is None else list(match.spans)) == (everywhere[0] if everywhere else None)


def _at(reference: ReferenceMatcher, at: int) -> list[tuple[int, int] | None] | None:
    nothing = (None,) * (reference.pattern.group_count + 1)
    result = reference._match(reference.pattern.root, at, nothing, lambda end, captures: (end, captures), 1)
    return None if result is None else [(at, result[0]), *result[1][1:]]


def check_replacing_by_itself_changes_nothing(source: str, flags: str, text: str) -> None:
    if CostModel(parse_pattern(source, flags)).steps(AnyText(2 * len(text) + 1)) == math.inf:
        return
    for more in ("g", "gu", ""):
        try:
            regex = JSRegex.compile(source, flags + more)
        except JSRegexSyntaxError:
            continue
        assert js.join_surrogates(regex.replace(text, "$&", timeout=30)) == js.join_surrogates(text)
        assert js.join_surrogates(regex.replace(text, lambda match: match.text, timeout=30)) == js.join_surrogates(text)


halved_texts = st.text("ab 😀😁é\ud83d\ude00", max_size=12)
template_pieces = st.sampled_from(["", "x", "é", "😀", "\ud83d", "\ude00"])


def check_templates_do_what_functions_do(source: str, flags: str, text: str, before: str, after: str) -> None:
    if CostModel(parse_pattern(source, flags)).steps(AnyText(2 * len(text) + 1)) == math.inf:
        return
    for more in ("g", "gu", ""):
        try:
            regex = JSRegex.compile(f"({source})", flags + more)
        except JSRegexSyntaxError:
            continue
        around = regex.replace(text, lambda match: before + match.text + after, timeout=30)
        assert regex.replace(text, f"{before}$&{after}", timeout=30) == around
        assert regex.replace(text, f"{before}$1{after}", timeout=30) == around
        assert regex.replace(text, before + after, timeout=30) == regex.replace(
            text, lambda _: before + after, timeout=30
        )


many_characters = st.text(
    st.characters(min_codepoint=0x10000, max_codepoint=0x10080) | st.sampled_from("ab é\ud83d\ude00")
)


def check_offsets_of_matches(text: str, asked: list[int]) -> None:
    """Offsets are right in any order of asking, for characters and for halves of them."""
    text = js.join_surrogates(text)
    for flags, starts in (
        ("g", range(js.utf16_length(text) + 1)),
        ("gu", [js.utf16_index(text, index) for index in range(len(text) + 1)]),
    ):
        matches = JSRegex.compile("", flags).find_all(text)
        order = [index % len(matches) for index in asked] + list(range(len(matches)))
        assert [matches[index].utf16_start for index in order] == [starts[index] for index in order]
        assert [matches[index].start for index in order] == [js.python_index(text, starts[index]) for index in order]


def check_parts_are_those_of_javascript(text: str) -> None:
    """Every text that is found is what JavaScript would cut out, however many different characters there are."""
    text = js.join_surrogates(text)
    for match in JSRegex.compile("[^]{1,3}", "g").find_all(text):
        assert match.text == js.utf16_slice(text, match.utf16_start, match.utf16_end)
    assert JSRegex.compile("a|b", "g").replace(text, "<$&>") == text.replace("a", "<a>").replace("b", "<b>")


def check_anything_compiles_or_is_refused(source: str, flags: str) -> None:
    with contextlib.suppress(JSRegexSyntaxError):
        JSRegex(source, flags)


def check_numbers_read_back(number: float) -> None:
    text = js.number_to_string(number)
    back = js.to_number(text)
    assert back == number or math.isnan(number)
    assert js.parse_float(text) == number or math.isnan(number)
    if math.isfinite(number):
        assert abs(float(js.to_fixed(number, 20)) - number) <= max(1e-20, abs(number) * 1e-15)


def check_radix_strings_read_back(number: int, radix: int) -> None:
    assert js.parse_int(js.to_radix_string(number, radix), radix) == number


def check_utf16_offsets(text: str) -> None:
    text = js.join_surrogates(text)
    assert js.utf16_length(text) == len(text) + sum(character > "\uffff" for character in text)
    for index in range(len(text) + 1):
        assert js.python_index(text, js.utf16_index(text, index)) == index
    assert "".join(js.utf16_at(text, index) for index in range(js.utf16_length(text))).encode(
        "utf-16", "surrogatepass"
    ) == text.encode("utf-16", "surrogatepass")


def check_json_round_trip(value: object) -> None:
    for indent in (0, 2):
        written = js.json_stringify(value, indent)
        assert js.json_parse(written) == value
        assert js.json_stringify(js.json_parse(written), indent) == written


def check_equality_is_symmetric(left: object, right: object) -> None:
    assert js.loose_equals(left, right) == js.loose_equals(right, left)
    assert not js.strict_equals(left, right) or js.loose_equals(left, right)
    assert js.less_than(left, right) is False or js.less_than(right, left) is False


def check_uri_round_trip(text: str) -> None:
    try:
        encoded = js.encode_uri_component(text)
    except js.JSURIError:
        return
    assert encoded.isascii()
    assert unquote(encoded) == js.join_surrogates(text)


def check_masking_round_trip(text: str) -> None:
    masked, placeholders = mask(text, EscapeHatch(True, "keep_backslash"))
    assert unmask(masked, placeholders) == text


def check_pointer_round_trip(keys: list[str]) -> None:
    pointer = json_pointer.from_tokens(keys)
    assert json_pointer.tokens(pointer) == keys
    document: object = "leaf"
    for key in reversed(keys):
        document = {key: document}
    assert json_pointer.resolve(document, pointer) == "leaf"
    assert json_pointer.resolve(json_pointer.set_value(document, pointer, 7), pointer) == 7
    assert json_pointer.resolve(document, pointer) == "leaf"
    if keys:
        assert json_pointer.resolve(json_pointer.delete(document, pointer), pointer, "gone") == "gone"


def check_any_text_is_a_pointer_or_refused(pointer: str) -> None:
    try:
        tokens = json_pointer.tokens(pointer)
    except ConfigError:
        return
    assert json_pointer.from_tokens(tokens) == pointer


def check_tags_normalize_once(text: str) -> None:
    tag = language_tag(text)
    if tag is not None:
        assert language_tag(tag) == tag
        assert language_tag(tag.swapcase().replace("-", "_")) == tag
