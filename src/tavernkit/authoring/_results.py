"""Results of tests, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject
from tavernkit.authoring._checks import Check

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
            name = f"{result.name} ({result.platform})" if result.platform else result.name
            case = ElementTree.SubElement(suite, "testcase", name=name, classname=str(file))
            if not result.passed:
                kind = "failure" if result.error is None else "error"
                lines = [_printable(line) for line in result.failures]
                ElementTree.SubElement(case, kind, message=lines[0]).text = "\n".join(lines)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """Replace characters that XML does not allow."""
    return "".join(each if each >= " " or each in "\t\n" else "\ufffd" for each in text)
