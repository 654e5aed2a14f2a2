"""A file that is too large is refused before it is read, with its name and size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tavernkit.errors import FileFormatError, TavernKitError
from tavernkit.silly_tavern import ChatFile, chat_file, template_bundle, template_file
from tavernkit.silly_tavern.context_template.template import ContextTemplate
from tavernkit.silly_tavern.template_bundle import TemplateBundle


@pytest.mark.parametrize(
    ("module", "limit", "load"),
    [
        (chat_file, "MAX_CHAT_FILE_BYTES", ChatFile.load),
        (template_file, "MAX_TEMPLATE_BYTES", ContextTemplate.load),
        (template_bundle, "MAX_TEMPLATE_BYTES", TemplateBundle.load),
    ],
)
def test_a_file_may_be_as_large_as_the_limit(
    module: object, limit: str, load: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"name": "n", "story_string": "x"}', encoding="utf-8")
    monkeypatch.setattr(module, limit, 34)
    load(path)
    monkeypatch.setattr(module, limit, 33)
    with pytest.raises(TavernKitError) as caught:
        load(path)
    assert str(caught.value).count("file.json") == 1
    assert "34 bytes are more than the 33" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"gone\.json"):
        TemplateBundle.load(tmp_path / "gone.json")
