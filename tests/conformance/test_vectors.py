"""Every vector of every surface that has an adapter, one test each."""

from __future__ import annotations

import pytest

from tests.conformance import runner


def all_cases() -> list[object]:
    known = runner.known_differences()
    return [
        pytest.param(case, id=case.id)
        for surface in runner.surfaces()
        if runner.adapter(surface) is not None
        for case in runner.cases(surface)
        if case.id not in known
    ]


@pytest.mark.parametrize("case", all_cases())
def test_vector(case: runner.Case) -> None:
    outcome = runner.run(case)
    if outcome.lacking and not outcome.failed:
        pytest.skip(f"needs {outcome.lacking}")
    if not outcome.passed:
        details = outcome.error or "\n".join(outcome.differences)
        pytest.fail(f"{case.id} ({case.note})\n{details}", pytrace=False)


def test_known_differences_are_real_and_explained() -> None:
    listed = runner.known_differences()
    by_id = {case.id: case for surface in runner.surfaces() for case in runner.cases(surface)}
    for case_id, reason in listed.items():
        assert case_id in by_id, f"{case_id} is listed and does not exist"
        assert len(reason) > 20, f"{case_id} needs a reason"
        if runner.adapter(by_id[case_id].surface) is not None:
            assert not runner.run(by_id[case_id]).passed, f"{case_id} passes: take it off the list"
