"""Stores: what is saved is there, whatever happens while it is saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tavernkit._atomic import replace_atomically, write_atomically
from tavernkit.conversation import (
    ConversationStore,
    FileStore,
    MemoryStore,
    SavedChat,
    SqliteStore,
    StoreConflictError,
    StoreError,
)

SAVE_FOR_EVER = """
import sys
from tavernkit.conversation import FileStore, SavedChat
store = FileStore(sys.argv[1])
number = 0
while True:
    number += 1
    store.save(SavedChat(file=b"%d\\n" % number * 20_000 + b"end", state={"number": number}))
    print(number, flush=True)
"""

SAVE_ON_A_FULL_DISK = """
import resource, signal, sys
from tavernkit.conversation import FileStore, SavedChat, SqliteStore, StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = FileStore(sys.argv[1]) if sys.argv[1].endswith(".jsonl") else SqliteStore(sys.argv[1])
old = store.load()
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    store.save(SavedChat(file=old.file + b"more" * 10_000, state=old.state))
except StoreError as error:
    print(error)
"""


def stores(folder: Path) -> list[ConversationStore]:
    return [MemoryStore(), FileStore(folder / "new folder" / "a.jsonl"), SqliteStore(folder / "chats.db", "a")]


@pytest.mark.parametrize("kind", range(3))
def test_what_is_saved_is_loaded(tmp_path: Path, kind: int) -> None:
    store = stores(tmp_path)[kind]
    assert store.load() is None
    for text in ("one", "two"):
        saved = SavedChat(file=text.encode(), state={"global_variables": {"gold": 3, "name": "Ä"}})
        store.save(saved)
        assert store.load() == saved
        if kind:
            assert stores(tmp_path)[kind].load() == saved


@pytest.mark.parametrize("kind", range(3))
def test_a_branch_is_saved_beside(tmp_path: Path, kind: int) -> None:
    store = stores(tmp_path)[kind]
    store.save(SavedChat(file=b"trunk"))
    branch = store.branch("a - Branch #1")
    branch.save(SavedChat(file=b"branch"))
    assert [each and each.file for each in (store.load(), branch.load())] == [b"trunk", b"branch"]
    assert sorted(branch.names()) == (["a", "a - Branch #1"] if kind else [])


def test_a_branch_shares_a_named_state_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.jsonl", state=tmp_path / "globals.json")
    assert store.branch("b").state == store.state
    assert FileStore(tmp_path / "a.jsonl").branch("b").state.name == "b.state.json"


def test_what_the_format_has_no_place_for_is_beside_the_chat(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.jsonl")
    store.save(SavedChat(file=b"chat"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    store.save(SavedChat(file=b"chat", state={"gold": 1}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.state.json"]
    shared = FileStore(tmp_path / "b.jsonl", state=tmp_path / "a.state.json").load()
    assert shared == SavedChat(file=b"", state={"gold": 1})


def test_a_file_that_another_program_changed_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    store = FileStore(path)
    store.save(SavedChat(file=b"mine"))
    path.write_bytes(b"theirs, and longer")
    with pytest.raises(StoreConflictError, match=r"a\.jsonl was changed by another program"):
        store.save(SavedChat(file=b"mine again"))
    assert path.read_bytes() == b"theirs, and longer"
    assert store.load() == SavedChat(file=b"theirs, and longer")
    store.save(SavedChat(file=b"mine again"))


def test_after_a_conflict_the_other_programs_state_is_kept_too(tmp_path: Path) -> None:
    mine, theirs = FileStore(tmp_path / "a.jsonl"), FileStore(tmp_path / "a.jsonl")
    mine.save(SavedChat(file=b"first", state={"global_variables": {"gold": 1}}))
    theirs.load()
    theirs.save(SavedChat(file=b"second", state={"global_variables": {"gold": 2}}))
    with pytest.raises(StoreConflictError):
        mine.save(SavedChat(file=b"third", state={"global_variables": {"gold": 3}}))
    assert FileStore(tmp_path / "a.jsonl").load() == SavedChat(file=b"second", state={"global_variables": {"gold": 2}})


def test_links_are_followed_and_modes_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.jsonl", tmp_path / "a.jsonl"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    FileStore(link).save(SavedChat(file=b"new"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"chat")
    (tmp_path / "a.state.json").write_bytes(b"{broken")
    with pytest.raises(StoreError, match=r"a\.state\.json cannot be read"):
        FileStore(tmp_path / "a.jsonl").load()
    (tmp_path / "chats.db").write_bytes(b"not a database, certainly not" * 100)
    with pytest.raises(StoreError, match=r"chats\.db"):
        SqliteStore(tmp_path / "chats.db").load()
    with pytest.raises(StoreError, match=r"folder cannot be read"):
        FileStore(_made(tmp_path / "folder")).load()


def _made(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.skipif(os.name == "nt", reason="needs limits on the size of files")
@pytest.mark.parametrize("name", ["a.jsonl", "chats.db"])
def test_a_full_disk_leaves_the_old_chat(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    old = SavedChat(file=b"a line\n" * 1000, state={"gold": 1})
    (FileStore(path) if name == "a.jsonl" else SqliteStore(path)).save(old)
    done = subprocess.run([sys.executable, "-c", SAVE_ON_A_FULL_DISK, path], capture_output=True, text=True, check=True)
    assert name in done.stdout  # the error names the file
    assert (FileStore(path) if name == "a.jsonl" else SqliteStore(path)).load() == old
    assert not list(tmp_path.glob(".*"))


def test_opening_a_chat_does_not_disturb_a_program_that_is_saving_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_atomically(path, b"old")

    def write(part: Path) -> None:
        part.write_bytes(b"new")
        assert FileStore(path).load() == SavedChat(file=b"old")

    replace_atomically(path, write)
    assert path.read_bytes() == b"new"


def test_long_names_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / f"{'ä' * 124}.jsonl"
    FileStore(path, state=tmp_path / "state.json").save(SavedChat(file=b"chat"))
    assert FileStore(path, state=tmp_path / "state.json").load() == SavedChat(file=b"chat")


@pytest.mark.skipif(os.name == "nt", reason="needs modes")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_new_files_have_the_users_mode_and_are_private_until_they_are_complete(tmp_path: Path, mask: int) -> None:
    path, seen = tmp_path / "a.jsonl", list[int]()

    def write(part: Path) -> None:
        seen.append(part.stat().st_mode & 0o777)

    before = os.umask(mask)
    try:
        replace_atomically(path, write)
    finally:
        os.umask(before)
    assert (seen, path.stat().st_mode & 0o777) == ([0o600], 0o666 & ~mask)


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_killed_program_leaves_a_whole_chat(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    highest = 0
    for saves in (1, 2, 5):
        process = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, path], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(saves):
            highest = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for left in tmp_path.glob(".*"):
            os.utime(left, (0, 0))  # as if it had been killed long ago
        saved = FileStore(path).load()
        assert saved is not None
        lines = saved.file.split(b"\n")
        assert (len(lines), lines[-1], len(set(lines[:-1]))) == (20_001, b"end", 1)
        assert int(lines[0]) >= highest  # what was said to be saved is there
        assert not list(tmp_path.glob(".*"))  # what the killed program left is removed
