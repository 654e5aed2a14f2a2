"""Regular expressions: flags, syntax, matches, replacement, splitting, searching from the middle."""

from __future__ import annotations

import pytest

from tavernkit._text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError, parse_literal


def texts(source: str, text: str, flags: str = "g") -> list[str]:
    return [match.text for match in JSRegex.compile(source, flags).find_all(text)]


class TestFlags:
    @pytest.mark.parametrize("flags", ["x", "gg", "uv", "G", "i ", "gimsuyd?"])
    def test_unknown_repeated_and_contradicting_flags_are_refused(self, flags: str) -> None:
        with pytest.raises(JSRegexSyntaxError, match="flags"):
            JSRegex.compile("a", flags)

    def test_flags_are_sorted_and_told(self) -> None:
        regex = JSRegex.compile("a", "yig")
        assert (regex.source, regex.flags, regex.global_, regex.sticky) == ("a", "giy", True, True)
        assert repr(regex) == "JSRegex(/a/giy)"

    def test_compiled_expressions_are_kept(self) -> None:
        assert JSRegex.compile("kept", "g") is JSRegex.compile("kept", "g")

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("/a/", ("a", "")),
            ("/a\\/b/gi", ("a\\/b", "gi")),
            ("/[/]/", ("[/]", "")),
            ("/a\nb/s", ("a\nb", "s")),
            ("/[\\]/]/x", ("[\\]/]", "x")),
            ("//", None),
            ("/a", None),
            ("a/", None),
            ("/a/b/g", None),
            ("/a/g1", None),
            ("/[/", None),
            (" /a/", None),
        ],
    )
    def test_literals(self, text: str, parts: tuple[str, str] | None) -> None:
        assert parse_literal(text) == parts


class TestSyntax:
    @pytest.mark.parametrize(
        "source",
        [
            "(",
            ")",
            "[",
            "*",
            "a**",
            "^*",
            "\\",
            "(?<=a)*",
            "\\b+",
            "{1}",
            "a{2,1}",
            "[b-a]",
            "(?<n>a)(?<n>b)",
            "(?<1>a)",
            "(?<n",
            "(?<n>a)\\k<m>",
            "(?<n>a)\\k",
            "(?<n>a)[\\k]",
            "(?a:b)",
            "(?i-i:b)",
            "(?-:b)",
            "(?ii:b)",
            "(?",
            "(?<=a",
        ],
    )
    def test_what_javascript_refuses(self, source: str) -> None:
        with pytest.raises(JSRegexSyntaxError, match="Invalid regular expression"):
            JSRegex.compile(source)

    @pytest.mark.parametrize(
        "source",
        [
            "{",
            "}",
            "]",
            "a{",
            "a{1",
            "a{,1}",
            "\\-",
            "\\1",
            "(a)\\2",
            "\\k",
            "\\c",
            "[\\d-z]",
            "\\u{61",
            "\\xg",
            "\\p{Nope}",
            "(?=a)*",
            "\\u{110000}",
            "\\08",
            "[\\b-c]{",
        ],
    )
    def test_only_unicode_mode_refuses_the_webs_leniency(self, source: str) -> None:
        JSRegex.compile(source)
        with pytest.raises(JSRegexSyntaxError):
            JSRegex.compile(source, "u")

    @pytest.mark.parametrize(
        "source", ["[a&&&b]", "[(]", "[a--b-c]", "[^\\q{ab}]", "[a-\\d]", "[~~]", "[z-a]", "[\\k]"]
    )
    def test_sets_have_rules_of_their_own(self, source: str) -> None:
        with pytest.raises(JSRegexSyntaxError):
            JSRegex.compile(source, "v")

    def test_sets_can_be_combined(self) -> None:
        assert texts("[[a-z]--[aeiou]]+", "banana", "gv") == ["b", "n", "n"]
        assert texts("[\\w&&[^a-m]]", "dog", "gv") == ["o"]
        assert texts("[\\q{abc|d}x]", "abcdx", "gv") == ["abc", "d", "x"]
        assert texts("[\\~\\b!]", "~b!", "gv") == ["~", "!"]
        assert texts("\\p{RGI_Emoji_Flag_Sequence}", "x🇩🇪y", "gv") == ["🇩🇪"]
        assert texts("[\\u0000-\\uffff]", "a😀", "gv") == ["a"]

    def test_too_deep_and_too_long_patterns_are_refused(self) -> None:
        with pytest.raises(JSRegexSyntaxError, match="deeply"):
            JSRegex.compile("(" * 10_000 + ")" * 10_000)
        with pytest.raises(JSRegexSyntaxError, match="too many"):
            JSRegex.compile("a" * 30_001)
        with pytest.raises(JSRegexSyntaxError, match="too large"):
            JSRegex.compile("a+" * 4_001)
        with pytest.raises(JSRegexSyntaxError, match="deeply"):
            JSRegex.compile("[" * 1000 + "a" + "]" * 1000, "v")
        assert JSRegex.compile("[" * 50 + "a" + "]" * 50, "v").test("a")

    def test_the_deepest_pattern_can_be_used_deep_in_a_program(self) -> None:
        def compile_below(calls: int) -> JSRegex:
            if calls:
                return compile_below(calls - 1)
            regex = JSRegex("(?:a|b" * 50 + "c" + ")*x" * 50)
            assert not regex.test("abc", timeout=30)
            return regex

        assert compile_below(300).test("a", timeout=30) is False
        with pytest.raises(JSRegexSyntaxError, match="deeply"):
            JSRegex("(?:" * 51 + "c" + ")" * 51)

    @pytest.mark.parametrize(
        ("source", "text", "found"),
        [
            ("\\u{3}", "uuu", "uuu"),
            ("\\c", "\\c", "\\c"),
            ("\\cJ", "\n", "\n"),
            ("[\\c_]", "\x1f", "\x1f"),
            ("\\101", "A", "A"),
            ("\\8", "8", "8"),
            ("(a)\\18", "a\x018", "a\x018"),
            ("a{,2}", "a{,2}", "a{,2}"),
            ("[]]", "]", None),
            ("[^]", "\n", "\n"),
            ("\\1(a)", "a", "a"),
            ("(?<$é_1>a)\\k<$é_1>", "aa", "aa"),
            ("(?<\\u0061>b)\\k<a>", "bb", "bb"),
            ("(?i:a)b", "Ab", "Ab"),
            ("(?s-i:A.)", "A\n", "A\n"),
        ],
    )
    def test_odd_but_legal_patterns(self, source: str, text: str, found: str | None) -> None:
        match = JSRegex.compile(source).search(text)
        assert (None if match is None else match.text) == found


class TestMatches:
    def test_a_match_tells_where_and_what(self) -> None:
        match = JSRegex.compile("(?<first>b)(x)?(c)").search("äbcd")
        assert match is not None
        assert (match.start, match.end, match.text, match.input) == (1, 3, "bc", "äbcd")
        assert match.groups == ("b", None, "c")
        assert match.group(0) == "bc"
        assert match.named == {"first": "b"}
        assert match.named_group("nobody") is None
        assert match.spans == ((1, 3), (1, 2), None, (2, 3))
        assert repr(match) == "JSMatch(1, 3, 'bc', groups=('b', None, 'c'))"

    def test_offsets_are_pythons_and_javascripts(self) -> None:
        [first, second] = JSRegex.compile("b", "g").find_all("😀b龍b")
        assert [(m.start, m.utf16_start, m.end, m.utf16_end) for m in (first, second)] == [(1, 2, 2, 3), (3, 4, 4, 5)]
        assert second.start == 3
        assert first.start == 1  # asked for again, after a later one

    def test_without_u_a_character_may_be_two(self) -> None:
        assert texts("^.$", "😀") == []
        assert texts("^..$", "😀") == ["😀"]
        assert texts("^.$", "😀", "gu") == ["😀"]
        assert texts("[😀]", "😀") == ["\ud83d", "\ude00"]
        assert texts("\\ud83d", "😀") == ["\ud83d"]
        assert texts("\\ud83d", "😀", "gu") == []
        assert texts("[\\ud800-\\udbff]", "\ud83dx", "gu") == ["\ud83d"]
        assert texts("😀+", "😀😀") == ["😀", "😀"]
        assert texts("😀+", "😀😀", "gu") == ["😀😀"]
        halves = JSRegex.compile(".", "g").find_all("x😀")
        assert [(m.start, m.end) for m in halves] == [(0, 1), (1, 1), (1, 2)]

    def test_characters_of_the_highest_planes_are_two_as_well(self) -> None:
        assert texts(".", "\U0010ffff\U000e0001") == ["\udbff", "\udfff", "\udb40", "\udc01"]
        # The first bytes of this one are those of the characters that stand for halves in the engine.
        assert texts(".", "\U0005d000") == ["\ud934", "\udc00"]

    def test_empty_matches_advance_by_what_is_counted(self) -> None:
        assert [m.utf16_start for m in JSRegex.compile("", "g").find_all("a😀")] == [0, 1, 2, 3]
        assert [m.utf16_start for m in JSRegex.compile("", "gu").find_all("a😀")] == [0, 1, 3]

    def test_case_folds_as_in_javascript(self) -> None:
        assert texts("s", "sSſ", "gi") == ["s", "S"]
        assert texts("s", "sSſ", "giu") == ["s", "S", "ſ"]
        assert texts("i", "iIıİ", "gi") == ["i", "I"]
        assert texts("[^x]", "Xx", "gi") == []
        assert texts("[à-ý]", "Éß", "gi") == ["É"]
        assert texts("σ", "Σςσ", "gi") == ["Σ", "ς", "σ"]
        assert texts("(a)\\1", "aA", "gi") == ["aA"]
        assert texts("[\\W]", "k", "giu") == []

    def test_alternatives_may_share_a_name(self) -> None:
        regex = JSRegex.compile("(?:(?<year>\\d{4})-|(?<year>\\d\\d)/)\\k<year>")
        match = regex.search("12/12")
        assert match is not None
        assert match.named == {"year": "12"}
        assert match.groups == (None, "12")
        assert regex.replace("12/12", "<$<year>>") == "<12>"

    def test_look_behind(self) -> None:
        assert texts("(?<=\\$)\\d+(?!\\d)", "$42 17") == ["42"]
        assert texts("(?<!\\$)\\b\\d+", "$42 17") == ["17"]
        assert JSRegex.compile("(?<=(\\d+)(\\d+))$").search("1053").groups == ("1", "053")  # type: ignore[union-attr]

    def test_test_tells_yes_or_no(self) -> None:
        assert JSRegex.compile("b").test("abc")
        assert not JSRegex.compile("b", "y").test("abc")


class TestSearchFrom:
    def test_it_finds_the_first_at_or_after_an_offset(self) -> None:
        regex = JSRegex.compile("a.")
        assert [getattr(regex.search("aéa1aZ", start), "start", None) for start in range(8)] == [
            0, 2, 2, 4, 4, None, None, None,
        ]  # fmt: skip
        assert regex.search("ab", -5) is not None

    def test_what_is_before_still_counts(self) -> None:
        assert JSRegex.compile("^b").search("ab", 1) is None
        assert JSRegex.compile("^b", "m").search("a\nb", 1) is not None
        assert JSRegex.compile("\\bb").search("ab b", 1).start == 3  # type: ignore[union-attr]
        assert JSRegex.compile("(?<=a)b").search("ab", 1).start == 1  # type: ignore[union-attr]
        assert JSRegex.compile("(?<=^.*(x).*)b(c)").search("xéabc", 3).groups == ("x", "c")  # type: ignore[union-attr]
        assert JSRegex.compile("(?<=(a))b\\1").search("éaba", 2).spans == ((2, 4), (1, 2))  # type: ignore[union-attr]

    def test_sticky_matches_only_there(self) -> None:
        regex = JSRegex.compile("b", "y")
        assert regex.search("ab") is None
        assert regex.search("ab", 1) is not None
        assert JSRegex.compile("\\bb", "y").search("ab", 1) is None
        assert JSRegex.compile("(?<=é)b", "y").search("éb", 1) is not None
        assert regex.replace("bab", "x") == "xab"
        assert JSRegex.compile("b", "gy").replace("bbab", "x") == "xxab"
        assert JSRegex.compile("b|", "gy").replace("bab", "x") == "xxaxx"

    def test_offsets_in_a_text_with_wide_characters(self) -> None:
        match = JSRegex.compile("b(.)").search("😀ab😀", 1)
        assert match is not None
        assert (match.start, match.text) == (2, "b\ud83d")


class TestReplace:
    @pytest.mark.parametrize(
        ("template", "result"),
        [
            ("[$1]", "x[a]y"),
            ("$2$3", "x$3y"),
            ("$10", "xa0y"),
            ("$01", "xay"),
            ("$00$0", "x$00$0y"),
            ("$$1", "x$1y"),
            ("$&$&", "xababy"),
            ("$`|$'", "xx|yy"),
            ("$<n>", "x$<n>y"),
            ("$<$&>", "x$<ab>y"),
            ("$", "x$y"),
            ("$ $x $", "x$ $x $y"),
            ("", "xy"),
        ],
    )
    def test_templates(self, template: str, result: str) -> None:
        assert JSRegex.compile("(a)b(c)?").replace("xaby", template) == result

    def test_names_in_templates(self) -> None:
        regex = JSRegex.compile("(?<n>a)(?<m>b)?")
        assert regex.replace("a", "$<n>$<m>$<none>$<n") == "a$<n"
        assert regex.replace("a", "$<>") == ""

    def test_eleven_groups(self) -> None:
        regex = JSRegex.compile("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)")
        assert regex.replace("abcdefghijk", "$11-$12-$1") == "k-a2-a"

    def test_first_or_all(self) -> None:
        assert JSRegex.compile("a").replace("aaa", "b") == "baa"
        assert JSRegex.compile("a", "g").replace("aaa", "b") == "bbb"
        assert JSRegex.compile("x", "g").replace("aaa", "b") == "aaa"
        assert JSRegex.compile("", "g").replace("ab", "-") == "-a-b-"

    def test_a_function_gets_each_match(self) -> None:
        seen: list[JSMatch] = []

        def shout(match: JSMatch) -> str:
            seen.append(match)
            return match.text.upper() + "$1"

        assert JSRegex.compile("é(.)", "g").replace("éa éb", shout) == "ÉA$1 ÉB$1"
        assert [match.groups for match in seen] == [("a",), ("b",)]

    def test_halves_are_put_together_again(self) -> None:
        assert JSRegex.compile("", "g").replace("😀", "") == "😀"
        assert JSRegex.compile("x", "g").replace("\ud83dx\ude00", "") == "😀"
        assert JSRegex.compile("\\ude00", "g").replace("😀!", "\ude01") == "😁!"
        assert JSRegex.compile("x", "gu").replace("\ud83dx\ude00", "") == "😀"

    def test_a_text_cannot_be_blown_up_without_end(self) -> None:
        text = "x" * 50_000
        warnings: list[str] = []
        assert JSRegex.compile("x", "g").replace(text, "$`$'", warn=warnings.append) == text
        assert warnings == ["the regex /x/g would make a text too long: it is left as it was"]
        assert JSRegex.compile("x", "g").replace(text, "$`$'") == text
        assert len(JSRegex.compile("x{49000}", "g").replace(text, "$`$'")) == 2000


class TestSplit:
    @pytest.mark.parametrize(
        ("source", "text", "parts"),
        [
            (",", "a,b,,c", ["a", "b", "", "c"]),
            ("(,)|(;)", "a,b;c", ["a", ",", None, "b", None, ";", "c"]),
            ("", "abc", ["a", "b", "c"]),
            ("", "", []),
            ("x", "", [""]),
            ("$", "ab", ["ab"]),
            ("a*", "baac", ["b", "c"]),
            ("a", "a", ["", ""]),
            ("\\b", "a b", ["a", " ", "b"]),
            ("(?=b)", "abab", ["a", "ba", "b"]),
        ],
    )
    def test_splitting(self, source: str, text: str, parts: list[str | None]) -> None:
        assert JSRegex.compile(source).split(text) == parts

    def test_limits_and_sticky(self) -> None:
        assert JSRegex.compile(",").split("a,b,c", 2) == ["a", "b"]
        assert JSRegex.compile(",").split("a,b,c", 0) == []
        assert JSRegex.compile(",", "y").split("a,b") == ["a", "b"]

    def test_without_u_characters_are_split_in_halves(self) -> None:
        assert JSRegex.compile("").split("😀") == ["\ud83d", "\ude00"]
        assert JSRegex.compile("", "u").split("😀a") == ["😀", "a"]
