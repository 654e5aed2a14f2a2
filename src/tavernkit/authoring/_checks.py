"""Compares a prompt with what a test expects of it; results of tests, for people and for programs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence
from tavernkit.authoring._case_file import Expectations, TextExpectation
from tavernkit.lore import LoreRow
from tavernkit.prompt._plan import Plan

_LISTED = 3
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation: whether it was met, and why."""

    what: str
    """What was expected, in words."""
    passed: bool
    """True if the prompt is as expected."""
    reason: str = ""
    """Why it was met or not."""

    def to_dict(self) -> JsonObject:
        """The check, ready for ``json``."""
        return {"what": self.what, "passed": self.passed, "reason": self.reason}


def check_plan(expect: Expectations, plan: Plan, rows: Sequence[LoreRow]) -> list[Check]:
    """Compare a plan with expectations.

    Args:
        expect: The expectations.
        plan: The prompt.
        rows: The entries of its lore with the reasons, from ``tavernkit.report.lore_rows()``.
    """
    messages = [*_messages(plan)]
    return [
        *(_fires(name, rows, wanted=True) for name in expect.fires),
        *(_fires(name, rows, wanted=False) for name in expect.stays_out),
        *(_contains(each, messages, plan) for each in expect.contains),
        *(_lacks(each, messages) for each in expect.lacks),
        *_fits(expect.max_tokens, plan),
    ]


def _messages(plan: Plan) -> Iterator[tuple[str, str]]:
    """Role and text of each message, in order."""
    for message in plan.to_messages():
        given: Mapping[str, object] = message if is_mapping(message) else {}
        content = given.get("content")
        if is_sequence(content):
            parts = (part.get("text") for part in content if is_mapping(part))
            content = "".join(part for part in parts if isinstance(part, str))
        yield str(given.get("role")), content if isinstance(content, str) else ""


def _fires(name: str, rows: Sequence[LoreRow], *, wanted: bool) -> Check:
    what = f"{name!r} {'fires' if wanted else 'stays out'}"
    found = [row for row in rows if name in (row.title, row.id, row.id.rpartition(".")[2])]
    if not found:
        near = difflib.get_close_matches(name, [row.title for row in rows], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return Check(what, passed=False, reason=f"there is no such entry{hint}")
    row = next((row for row in found if row.active is wanted), found[0])
    return Check(what, row.active is wanted, row.reason)


def _contains(expected: TextExpectation, messages: Sequence[tuple[str, str]], plan: Plan) -> Check:
    what = f"the prompt has {_excerpt(expected.text)}{_place(expected)}"
    found = [index for index, (_, text) in enumerate(messages) if expected.text in text]
    if not found:
        return Check(what, passed=False, reason=_why_not(plan))
    problems = [_placement_problem(expected, index, messages) for index in found]
    return Check(what, None in problems, "" if None in problems else str(problems[0]))


def _lacks(expected: TextExpectation, messages: Sequence[tuple[str, str]]) -> Check:
    what = f"the prompt lacks {_excerpt(expected.text)}{_place(expected)}"
    for index, (role, text) in enumerate(messages):
        if expected.text in text and _placement_problem(expected, index, messages) is None:
            return Check(what, passed=False, reason=f"it is in message {index + 1} of {len(messages)} ({role})")
    return Check(what, passed=True)


def _placement_problem(expected: TextExpectation, index: int, messages: Sequence[tuple[str, str]]) -> str | None:
    """Return what is wrong with the place of a text in a message; None if it is correct."""
    role, text = messages[index]
    if expected.role is not None and role != expected.role:
        return f"it is in a message of the role {role}"
    depth = sum(other in ("user", "assistant") for other, _ in messages[index + 1 :])
    if expected.depth is not None and depth != expected.depth:
        return f"it is at depth {depth}: {depth} messages of the chat follow it"
    for other, comes_first in ((expected.before, True), (expected.after, False)):
        if other is None:
            continue
        # Either text may be there several times: it is enough if one of them is at the right side of another.
        mine, theirs = (str.index, str.rindex) if comes_first else (str.rindex, str.index)
        at = (index, mine(text, expected.text))
        places = [(number, theirs(each, other)) for number, (_, each) in enumerate(messages) if other in each]
        if not places:
            return f"{_excerpt(other)} is not in the prompt"
        if not any(at < place if comes_first else at > place for place in places):
            return f"it comes {'after' if comes_first else 'before'} {_excerpt(other)}"
    return None


def _fits(limit: int | None, plan: Plan) -> Iterator[Check]:
    if limit is None:
        return
    explanation = plan.explain()
    total = explanation.total_tokens
    largest = sorted(explanation.blocks, key=lambda block: -(block.tokens or 0))[:_LISTED]
    listed = ", ".join(f"{block.source} {block.tokens}" for block in largest)
    what = f"the prompt has at most {limit} tokens"
    yield Check(what, total is not None and total <= limit, f"it has {total}; the largest parts: {listed}")


def _why_not(plan: Plan) -> str:
    left_out = plan.explain().left_out
    if not left_out:
        return "it is in no message"
    listed = "; ".join(f"{each.what}: {each.reason}" for each in left_out[:_LISTED])
    more = f" and {len(left_out) - _LISTED} more" if len(left_out) > _LISTED else ""
    return f"it is in no message; left out: {listed}{more}"


def _place(expected: TextExpectation) -> str:
    parts = [
        f"as {expected.role}" if expected.role else "",
        f"at depth {expected.depth}" if expected.depth is not None else "",
        f"before {_excerpt(expected.before)}" if expected.before else "",
        f"after {_excerpt(expected.after)}" if expected.after else "",
    ]
    return "".join(f" {part}" for part in parts if part)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


SCHEMA_VERSION = 1
"""Increases when the JSON of results changes incompatibly."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One test that was run; ``error`` says why it could not be."""

    file: Path
    """The test file."""
    name: str
    """The name of the test."""
    platform: str
    """``silly_tavern`` or ``risu_ai``; empty if the file could not be read."""
    checks: Sequence[Check] = ()
    """What was checked, in order."""
    error: str | None = None

    @property
    def passed(self) -> bool:
        """True if everything is as expected."""
        return self.error is None and all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[str]:
        """The failed checks, one line each."""
        if self.error is not None:
            return [self.error]
        return [f"{check.what}: {check.reason or 'the check failed'}" for check in self.checks if not check.passed]


def results_as_json(results: Sequence[CaseResult]) -> JsonObject:
    """Return results as JSON: every test with all its checks."""
    tests: list[Json] = [
        {
            "file": str(result.file),
            "name": result.name,
            "platform": result.platform,
            "passed": result.passed,
            "error": result.error,
            "checks": [check.to_dict() for check in result.checks],
        }
        for result in results
    ]
    failed = sum(not result.passed for result in results)
    return {"schema_version": SCHEMA_VERSION, "passed": len(results) - failed, "failed": failed, "tests": tests}


def results_as_junit(results: Sequence[CaseResult]) -> str:
    """Return results as JUnit XML, which build servers read: one suite per file."""
    root = ElementTree.Element("testsuites", name="tavernkit")
    files = dict.fromkeys(result.file for result in results)
    for file in files:
        own = [result for result in results if result.file == file]
        failed = sum(result.error is None and not result.passed for result in own)
        errors = sum(result.error is not None for result in own)
        suite = ElementTree.SubElement(
            root, "testsuite", name=str(file), tests=str(len(own)), failures=str(failed), errors=str(errors)
        )
        for result in own:
            name = _printable(f"{result.name} ({result.platform})" if result.platform else result.name)
            case = ElementTree.SubElement(suite, "testcase", name=name, classname=str(file))
            if not result.passed:
                kind = "failure" if result.error is None else "error"
                lines = [_printable(line) for line in result.failures]
                ElementTree.SubElement(case, kind, message=lines[0]).text = "\n".join(lines)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _printable(text: str) -> str:
    """Replace characters that XML does not allow."""
    return _NOT_IN_XML.sub("\ufffd", text)
