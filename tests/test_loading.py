"""Every class that is read from a file is read in the same way: the same arguments, the same errors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tavernkit import cards, risu_ai, silly_tavern
from tavernkit.errors import (
    ConfigError,
    FileFormatError,
    LimitExceededError,
    StrictModeError,
    TavernKitError,
    Warn,
    WarningLog,
)
from tavernkit.risu_ai._files import chat_file as risu_chat_file
from tavernkit.risu_ai._files import preset as risu_preset
from tavernkit.risu_ai._files import save_database as risu_save
from tavernkit.silly_tavern import _group
from tavernkit.silly_tavern._files import chat_file, preset, settings
from tavernkit.silly_tavern._templates import bundle, templates
from tavernkit.silly_tavern._world_info import book


class Loader(Protocol):
    def __call__(self, path: Path, /, *, warn: Warn = ..., strict: bool = False) -> object: ...


def loaders() -> Iterator[tuple[str, Loader]]:
    """Whatever has a ``load`` among the public names, so that a new class is under the same rules."""
    for package in (silly_tavern, risu_ai):
        for name in package.__all__:
            load = getattr(getattr(package, name), "load", None)
            if load is not None:
                yield f"{package.__name__}.{name}", load
    yield "tavernkit.cards", cards.load
    yield "tavernkit.risu_ai.read_module", risu_ai.read_module


every_loader = pytest.mark.parametrize("load", [load for _, load in loaders()], ids=[name for name, _ in loaders()])


def test_there_are_loaders() -> None:
    names = [name.rpartition(".")[2] for name, _ in loaders()]
    assert {"Preset", "ChatFile", "WorldBook", "Settings", "Group", "Save", "InstructTemplate"} <= set(names)


@every_loader
@pytest.mark.parametrize("as_text", [False, True])
def test_a_path_where_no_file_is_is_the_callers_mistake(load: Loader, as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "gone.json"
    with pytest.raises(ConfigError, match=r"there is no file .*gone\.json") as caught:
        load(os.fspath(path) if as_text else path)  # pyright: ignore[reportArgumentType]  # a text is a path as well
    assert caught.value.code == "FILE_NOT_FOUND"
    with pytest.raises(TavernKitError, match=r"is a folder, not a file|the folder has no database/database\.bin"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="the path is blank"):
        load("")  # pyright: ignore[reportArgumentType]  # as above


@every_loader
@pytest.mark.parametrize("wrong", [5, None, ["a.json"], {}])
def test_what_is_no_file_is_the_callers_mistake(load: Callable[[object], object], wrong: object) -> None:
    with pytest.raises(ConfigError, match="source must be a path"):
        load(wrong)


@pytest.mark.parametrize("wrong", [5, None, [], "{}"])
@pytest.mark.parametrize(
    "read",
    [
        cards.AssetEntry.from_json,
        cards.BookEntry.from_json,
        silly_tavern.Group.from_json,
        silly_tavern.Settings.from_json,
        risu_ai.Preset.from_json,
        risu_ai.Save.from_json,
        risu_ai.Settings.from_json,
    ],
)
def test_json_that_is_no_object_is_the_callers_mistake(read: Callable[[object], object], wrong: object) -> None:
    with pytest.raises(ConfigError, match="must be a JSON object, not"):
        read(wrong)


@every_loader
@pytest.mark.parametrize("content", [b"", b"\x00\xff junk", b"[1", b"3"])
def test_a_file_of_something_else_is_no_good_file(load: Loader, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    if load == silly_tavern.ChatFile.load and content == b"":
        assert load(path, strict=True) == silly_tavern.ChatFile(name="other")
        return
    with pytest.raises((FileFormatError, StrictModeError)):
        load(path, strict=True)


@every_loader
def test_a_file_that_the_system_does_not_give_is_named(
    load: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileFormatError, match=r"secret\.json' cannot be read: Permission denied"):
        load(path)


@pytest.mark.parametrize(
    ("module", "limit", "load"),
    [
        (chat_file, "MAX_CHAT_FILE_BYTES", silly_tavern.ChatFile.load),
        (templates, "MAX_TEMPLATE_BYTES", silly_tavern.ContextTemplate.load),
        (bundle, "MAX_TEMPLATE_BYTES", silly_tavern.TemplateBundle.load),
        (preset, "MAX_PRESET_BYTES", silly_tavern.Preset.load),
        (settings, "MAX_SETTINGS_BYTES", silly_tavern.Settings.load),
        (_group, "MAX_GROUP_BYTES", silly_tavern.Group.load),
        (book, "MAX_BOOK_BYTES", silly_tavern.WorldBook.load),
        (risu_preset, "MAX_PRESET_BYTES", risu_ai.Preset.load),
        (risu_chat_file, "MAX_CHAT_BYTES", risu_ai.ChatFile.load),
        (risu_save, "MAX_DATABASE_BYTES", risu_ai.Save.load),
    ],
)
def test_a_file_may_be_as_large_as_the_limit(
    module: object, limit: str, load: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    content = (
        '{"name": "n", "story_string": "", "entries": {}, "type": "risuChat", "data": {}, "ver": 2, "characters": []}'
    )
    path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(module, limit, len(content))
    load(path)
    monkeypatch.setattr(module, limit, len(content) - 1)
    with pytest.raises(
        FileFormatError, match=rf"file\.json has {len(content)} bytes, more than {len(content) - 1}"
    ) as caught:
        load(path)
    cause = caught.value if isinstance(caught.value, LimitExceededError) else caught.value.__cause__
    assert isinstance(cause, LimitExceededError)
    assert cause.limit == limit


@every_loader
@pytest.mark.parametrize("content", [b"", b"\x00\xff junk", b"[1", b"3"])
def test_the_bytes_of_a_file_are_read_as_the_file_is(load: Loader, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)

    def outcome(source: Path | bytes) -> object:
        try:
            made = load(source, strict=True)  # pyright: ignore[reportArgumentType]  # bytes are taken as well
        except TavernKitError as error:
            return type(error)
        return type(made)

    assert outcome(content) == outcome(path)


@every_loader
def test_what_is_wrong_in_a_file_can_be_refused(load: Loader) -> None:
    parameters = inspect.signature(load).parameters
    assert parameters["strict"].default is False
    assert parameters["warn"].kind is inspect.Parameter.KEYWORD_ONLY


def test_the_first_argument_has_one_name_everywhere() -> None:
    assert {next(iter(inspect.signature(load).parameters)) for _, load in loaders()} == {"source"}
    readers = [
        getattr(getattr(package, name), "from_json", None)
        for package in (cards, silly_tavern, risu_ai)
        for name in package.__all__
    ]
    names = [next(iter(inspect.signature(read).parameters)) for read in readers if read is not None]
    assert len(names) > 20
    assert set(names) == {"data"}


CARD = '{"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Mira"}}'
BOOK = '{"entries": {"0": {"uid": 0, "key": ["lamp"], "content": "The lamp."}}}'


@pytest.mark.parametrize(
    ("load", "content", "told"),
    [
        (silly_tavern.Preset.load, CARD, "mistaken.json is read as a preset, but it is a card"),
        (silly_tavern.Preset.load, BOOK, "mistaken.json is read as a preset, but it is a world book"),
        (silly_tavern.Settings.load, CARD, "mistaken.json is read as settings.json, but it is a card"),
        (silly_tavern.InstructTemplate.load, BOOK, "is read as the instruct template, but it is a world book"),
        (silly_tavern.ContextTemplate.load, '{"input_sequence": ""}', "but it is an instruct template"),
        (silly_tavern.Group.load, CARD, "mistaken.json is read as a group, but it is a card"),
        (risu_ai.Preset.load, BOOK, "mistaken.json is read as a preset, but it is a world book"),
    ],
)
def test_a_file_of_another_kind_is_named(load: Loader, content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mistaken.json"
    path.write_text(content)
    warnings = WarningLog()
    load(path, warn=warnings)
    assert told in warnings.messages[0]
    with pytest.raises((FileFormatError, StrictModeError), match=r"mistaken\.json is read as"):
        load(path, strict=True)


@pytest.mark.parametrize("load", [silly_tavern.Preset.load, silly_tavern.InstructTemplate.load, risu_ai.Preset.load])
def test_a_file_of_no_known_kind_is_not_called_mistaken(load: Loader, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"temperature": 1, "name": "Odd"}')
    warnings = WarningLog()
    load(path, warn=warnings)
    assert not [each for each in warnings.messages if "is read as" in each]
