from __future__ import annotations

import pytest

from tests.cli.terminal import Tavernkit


@pytest.fixture
def tavernkit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tavernkit:
    monkeypatch.delenv("COLUMNS", raising=False)  # whoever runs the tests may have set a width
    return Tavernkit(capsys)
