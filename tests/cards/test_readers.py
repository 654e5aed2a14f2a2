"""Formats that a program adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tavernkit.cards import Bundle, Character, Limits, ReaderRegistry, load
from tavernkit.errors import ConfigError, StrictModeError, Warn


def read_lines(path: str, limits: Limits, warn: Warn) -> Bundle:
    name, _, rest = Path(path).read_text()[: limits.max_entry_bytes].partition("\n")
    if not rest:
        warn("the file has no description")
    return Bundle(card=Character(name=name, description=rest), warnings=("old format",))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ida.MyCard"
    path.write_text("Ida")
    return path


@pytest.mark.parametrize("ending", [".mycard", "MyCard", " .MYCARD "])
def test_a_file_is_read_by_the_reader_of_its_ending(file: Path, ending: str) -> None:
    readers = ReaderRegistry({ending: read_lines})
    assert readers.endings == (".mycard",)
    bundle = load(file, readers=readers)
    assert bundle.character.name == "Ida"
    assert bundle.warnings == ("old format", "the file has no description")
    assert load(str(file), readers=readers.copy()).character.name == "Ida"
    with pytest.raises(StrictModeError):
        load(file, readers=readers, strict=True)


def test_other_files_are_read_as_ever(file: Path) -> None:
    readers = ReaderRegistry({".mycard": read_lines})
    assert load(b'{"name": "Bo", "first_mes": "hi"}', readers=readers).character.name == "Bo"
    copy = readers.copy()
    copy.register(".other", read_lines)
    assert readers.endings == (".mycard",)
    with pytest.raises(ConfigError, match="nobody"):
        load(file.with_name("nobody.mycard"), readers=readers)


@pytest.mark.parametrize("ending", ["", ".", " ", "a/b", ".tar.gz"])
def test_what_is_no_ending_is_refused(ending: str) -> None:
    with pytest.raises(ConfigError, match="ending"):
        ReaderRegistry().register(ending, read_lines)


def test_what_cannot_read_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="must be a Bundle"):
        load(file, readers=ReaderRegistry({".mycard": lambda path, limits, warn: path}))  # type: ignore[dict-item]
