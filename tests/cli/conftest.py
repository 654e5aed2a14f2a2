from __future__ import annotations

import pytest

from tests.cli.terminal import Tavernkit


@pytest.fixture
def tavernkit(capsys: pytest.CaptureFixture[str]) -> Tavernkit:
    return Tavernkit(capsys)
