"""Times, dates and durations, where the vectors do not look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tavernkit.silly_tavern._macros import LegacyMacroEngine, MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._macros.builtin.time import parse_date, parse_send_date
from tavernkit.silly_tavern._macros.moment import format_time, humanize, ordinal

WEDNESDAY = datetime(2031, 3, 5, 14, 7, 9, 45_000, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("Q Qo DDD DDDo DDDD", "1 1st 64 64th 064"),
        ("d do dd e E", "3 3rd We 3 3"),
        ("w wo ww W Wo WW", "10 10th 10 10 10th 10"),
        ("gg gggg ggggg GG GGGG GGGGG", "31 2031 02031 31 2031 02031"),
        ("h hh k kk Hmm hmm Hmmss hmmss", "2 02 14 14 1407 207 140709 20709"),
        ("S SS SSS SSSSSSSSS", "0 04 045 045000000"),
        ("LT|LTS|L|LL|LLL", "2:07 PM|2:07:09 PM|03/05/2031|March 5, 2031|March 5, 2031 2:07 PM"),
        ("LLLL|l|ll", "Wednesday, March 5, 2031 2:07 PM|3/5/2031|Mar 5, 2031"),
        ("lll|llll", "Mar 5, 2031 2:07 PM|Wed, Mar 5, 2031 2:07 PM"),
        ("Z ZZ z x X", "+00:00 +0000  1930486029045 1930486029"),
        ("YYY YYYYY y yy yo NN NNNNN", "312031 02031 2031 2031 2031st AD AD"),
        (r"\D \LT [LT] w| [", r"D LT LT w| ["),
        ("YYYY\nMM", "203103"),
        ("YYYY\r\nMM\u2028DD\u2029", "20310305"),
        ("YYYY\\\nMM", "203103"),
        ("YYYY[\n]MM", "2031\n03"),
    ],
)
def test_moments_tokens(pattern: str, written: str) -> None:
    assert format_time(WEDNESDAY, pattern) == written


def test_a_format_of_line_breaks_only_leaves_the_macro() -> None:
    environment = MacroEnvironment(clock=lambda: WEDNESDAY)
    assert MacroEngine().expand("{{datetimeformat::YYYY\nMM}}", environment) == "203103"
    assert LegacyMacroEngine().expand("{{datetimeformat YYYY\nMM}}", environment) == "203103"
    assert LegacyMacroEngine().expand("{{datetimeformat \n}}", environment) == "{{datetimeformat \n}}"
    text = "{{datetimeformat::{{newline}}}}"
    assert MacroEngine().expand(text, environment) == "{{datetimeformat::\n}}"


def test_weeks_around_new_year() -> None:
    assert format_time(datetime(2030, 12, 29, tzinfo=UTC), "gggg-ww GGGG-WW") == "2031-01 2030-52"
    assert format_time(datetime(2031, 1, 4, tzinfo=UTC), "gggg-ww GGGG-WW") == "2031-01 2031-01"
    assert format_time(datetime(2032, 12, 31, tzinfo=UTC), "gggg-ww GGGG-WW") == "2033-01 2032-53"


def test_ordinals() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 101, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (44.4, "a few seconds"),
        (44.5, "a minute"),
        (89, "a minute"),
        (90, "2 minutes"),
        (44 * 60, "44 minutes"),
        (45 * 60, "an hour"),
        (86400 * 25, "25 days"),
        (86400 * 26, "a month"),
        (86400 * 319, "10 months"),
        (86400 * 320, "a year"),
        (86400 * 547, "a year"),
        (86400 * 548, "2 years"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert humanize(seconds * 1000) == words
    assert humanize(-seconds * 1000) == words


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2031-03-05", datetime(2031, 3, 5, tzinfo=EAST)),
        ("20310305T140709", datetime(2031, 3, 5, 14, 7, 9, tzinfo=EAST)),
        ("2031-03-05 14:07:09.0451Z", WEDNESDAY),
        ("2031-03-05T14:07:09,045-02", datetime(2031, 3, 5, 16, 7, 9, 45_000, tzinfo=UTC)),
        ("2031-064", datetime(2031, 3, 5, tzinfo=EAST)),
        ("2031-W10-3", datetime(2031, 3, 5, tzinfo=EAST)),
        ("2031W10", datetime(2031, 3, 3, tzinfo=EAST)),
        ("2031-03", datetime(2031, 3, 1, tzinfo=EAST)),
        ("203103", datetime(2031, 3, 1, tzinfo=EAST)),
        ("2031-03T14:07Z", datetime(2031, 3, 1, 14, 7, tzinfo=UTC)),
        ("2031-03-05 14:07 +01:00", datetime(2031, 3, 5, 13, 7, tzinfo=UTC)),
        ("2031", datetime(2031, 1, 1, tzinfo=EAST)),
        ("2031 14:07", datetime(2031, 1, 1, 14, 7, tzinfo=EAST)),
        ("2031-03-05T24:00", datetime(2031, 3, 6, tzinfo=EAST)),
        ("Wed, 05 Mar 2031 14:07:09 GMT", datetime(2031, 3, 5, 14, 7, 9, tzinfo=UTC)),
        ("5 Mar 31 14:07 EST", datetime(2031, 3, 5, 19, 7, tzinfo=UTC)),
        ("5 Mar 99 14:07 PDT", datetime(1999, 3, 5, 21, 7, tzinfo=UTC)),
        ("March 5, 2031 2:07 pm", datetime(2031, 3, 5, 14, 7, tzinfo=EAST)),
        ("2031/3/5", datetime(2031, 3, 5, tzinfo=EAST)),
        ("Wed Mar 05 2031 14:07:09 GMT+0200 (EET)", datetime(2031, 3, 5, 12, 7, 9, tzinfo=UTC)),
        ("Wednesday, 5 March 2031", datetime(2031, 3, 5, tzinfo=EAST)),
        ("3/5/2031, 12:07:09 AM", datetime(2031, 3, 5, 0, 7, 9, tzinfo=EAST)),
    ],
)
def test_dates_that_can_be_read(text: str, when: datetime) -> None:
    assert parse_date(text, EAST) == when


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "2031-13-01", "2031-02-30", "2031-366", "2031-W54", "2031-03-05T25:00", "2031-03-05T24:01"),
        *(
            "Thu, 05 Mar 2031 14:07:09 GMT",
            "March 35, 2031",
            "March 5, 2031 13:00 pm",
            "March 5, 2031 2:07pm",
            "2031-03-05T1407",
            *("20310305 14:07", "2031-W10 14:07", "203103 1407", "2031-03-05T14:07 +01:00"),
            "1" * 500,
        ),
    ],
)
def test_dates_that_cannot(text: str) -> None:
    assert parse_date(text, UTC) is None


@pytest.mark.parametrize(
    ("value", "when"),
    [
        (1930486029045, WEDNESDAY),
        ("1930486029045", WEDNESDAY),
        ("2031-3-5@14h7m9s45ms", WEDNESDAY),
        ("2031-03-05 @14h 07m 09s 45ms", WEDNESDAY),
        ("March 5, 2031 4:07pm", datetime(2031, 3, 5, 14, 7, tzinfo=UTC)),
        ("9" * 40, None),
        (1e300, None),
        ("2031-99-05@14h07m09s", None),
    ],
)
def test_send_dates_of_chat_files(value: str | float, when: datetime | None) -> None:
    assert parse_send_date(value, EAST) == when
