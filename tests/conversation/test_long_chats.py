"""What a turn of a long conversation does not do again for lines that have not changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tavernkit as tk
from tavernkit._values import GrowingJoin, JsonObject, same_start
from tavernkit.cards import Character
from tavernkit.conversation import FileStore
from tavernkit.conversation import _undo as undo
from tavernkit.silly_tavern import Chat, ChatMessage
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._conversation import known_lines

LINES = 200


def opened(path: Path) -> tk.Conversation:
    lines = [{"name": "Ann" if n % 2 else "Bel", "is_user": bool(n % 2), "mes": f"Line {n}."} for n in range(LINES)]
    header = {"user_name": "Ann", "character_name": "Bel", "chat_metadata": {}}
    path.write_text("\n".join(json.dumps(each) for each in (header, *lines)), encoding="utf-8")
    model = tk.model("scripted", replies=["One.", "Two."] * 20)
    return tk.Conversation.open(path, card=Character(name="Bel"), user="Ann", model=model)


def own_chat(chat: tk.Conversation) -> Chat:
    assert isinstance(chat.chat, Chat)
    return chat.chat


def test_a_turn_writes_reads_and_digests_only_lines_that_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[str, int] = {"written": 0, "read": 0, "digested": 0}
    dump, read, digest = known_lines.dump_json, ChatMessage.from_json, undo._written  # pyright: ignore[reportPrivateUsage]  # counted

    def count(what: str) -> None:
        done[what] += 1

    monkeypatch.setattr(known_lines, "dump_json", lambda value: (count("written"), dump(value))[1])
    monkeypatch.setattr(ChatMessage, "from_json", lambda data: (count("read"), read(data))[1])
    monkeypatch.setattr(undo, "_written", lambda value: (count("digested"), digest(value))[1])

    async def talk() -> dict[str, int]:
        async with opened(tmp_path / "chat.jsonl") as chat:
            await chat.send("First?")
            first = dict(done)
            await chat.send("Second?")
            return {what: times - first[what] for what, times in done.items()}

    assert all(times < LINES / 4 for times in asyncio.run(talk()).values())


def test_a_line_that_is_changed_directly_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def talk() -> None:
        async with opened(path) as chat:
            await chat.send("First?")
            before, own = chat.chat.snapshot(), own_chat(chat)
            own.state.lines[LINES - 2]["mes"] = "Changed."
            own.state.lines[5].setdefault("extra", {})["note"] = "new"  # type: ignore[index]  # an object
            await chat.save()
            assert before != chat.chat.snapshot()
            assert "Changed." in [message.content for message in chat.preview("Now?").messages]

    asyncio.run(talk())
    saved = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert saved[LINES - 1]["mes"] == "Changed."
    assert saved[6]["extra"]["note"] == "new"
    assert [line["mes"] for line in saved[-2:]] == ["First?", "One."]


def test_the_file_has_what_the_chats_own_file_has(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path / "chat.jsonl") as chat:
            await chat.send("Ünïcödé \ud83d?")
            own = own_chat(chat)
            own.state.lines.append({})
            assert b"".join(own.state.file_parts()) == own.file.dumps().encode("utf-8", "surrogatepass")

    asyncio.run(talk())


changes = st.lists(
    st.tuples(
        st.sampled_from(["append", "edit", "nested", "delete", "insert", "newest", "replace"]), st.integers(0, 99)
    ),
    max_size=6,
)


@given(count=st.integers(0, 60), played=st.lists(changes, max_size=5))
def test_known_lines_are_those_of_the_chat_whatever_happened(count: int, played: list[list[tuple[str, int]]]) -> None:
    lines: list[JsonObject] = [{"name": "Ann", "mes": f"Line {n}.", "extra": {"n": n}} for n in range(count)]
    known = known_lines.KnownLines()
    for number, each in enumerate(played):
        for what, place in each:
            at = place % len(lines) if lines else 0
            if what == "append" or not lines:
                lines.append({"name": "Bel", "mes": f"New {number}."})
            elif what == "edit":
                lines[at]["mes"] = f"Edited {number} {place}."
            elif what == "nested":
                lines[at]["extra"] = {"deep": [number]}
            elif what == "delete":
                del lines[at]
            elif what == "insert":
                lines.insert(at, {"mes": f"Between {number}."})
            elif what == "newest":
                lines[-1]["mes"] = f"Streamed {number}."
            else:
                lines[at] = {**lines[at], "mes": "replaced"}
        known.see(lines, in_turn=False)
        if lines:  # a turn goes on with the last line and expands the first
            lines[-1]["mes"], lines[0]["name"] = f"Reply {number}.", f"Cat {number}"
            lines.append({"mes": "More."})
            known.see(lines, in_turn=True)
        assert known.copies == lines
        assert [json.loads(line) for line in b"".join(known.written()).split(b"\n") if line] == [
            line or ChatMessage().to_json() for line in lines
        ]
        assert [message.mes for message in known.messages()] == [line.get("mes", "") for line in lines]


def test_a_turn_copies_no_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    whole = tk.conversation.SavedChat.file.fget
    assert whole is not None
    monkeypatch.setattr(tk.conversation.SavedChat, "file", property(lambda saved: (joined.append(1), whole(saved))[1]))
    saved: list[tuple[bytes, ...]] = []
    write = FileStore.save

    def counted(self: FileStore, chat: tk.conversation.SavedChat) -> None:
        saved.append(chat.parts)
        write(self, chat)

    monkeypatch.setattr(FileStore, "save", counted)

    async def talk() -> None:
        async with opened(tmp_path / "chat.jsonl") as chat:
            await chat.send("First?")
            joined.clear()
            await chat.send("Second?")

    asyncio.run(talk())
    assert joined == []
    most = [max(parts, key=len) for parts in saved]
    assert all(part is most[-1] for part in most)
    assert len(most[-1]) > len(b"".join(saved[-1])) / 2


def test_a_tool_may_change_any_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    seen: list[str] = []

    async def talk() -> None:
        async with opened(path) as chat:
            own = own_chat(chat)
            await chat.send("First?")
            with own.state.turn():
                own.state.lines[3]["mes"] = "Changed by a tool."
                own.state.look_at_lines()
                seen.extend(message.content for message in own.state.build("normal", "Now?").messages)

    asyncio.run(talk())
    assert "Changed by a tool." in seen


def test_a_turn_compares_all_lines_once_if_somebody_had_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    see = known_lines.KnownLines.see

    def counted(self: known_lines.KnownLines, lines: list[JsonObject], *, in_turn: bool) -> None:
        looks.append(in_turn)
        see(self, lines, in_turn=in_turn)

    async def talk() -> None:
        async with opened(tmp_path / "chat.jsonl") as chat:
            compared()
            await chat.send("First?")
            assert compared() == 1  # opening the chat may have changed any
            await chat.send("Second?")
            assert compared() == 0
            await chat.swipe()
            assert (repr(chat).count("204 lines"), compared()) == (1, 0)
            await chat.edit(3, "Edited.")
            compared()
            await chat.send("Third?")
            assert compared() == 1
            await chat.undo()
            compared()
            await chat.send("Third?")
            assert compared() == 1
            await chat.send("Fourth?")
            assert compared() == 0
            assert chat.lines[3]["mes"] == "Edited."
            for _ in range(2):  # from now on, the application may change lines at any time
                await chat.send("Fifth?")
                assert compared() == 1

    def compared() -> int:
        count = looks.count(False)
        looks.clear()
        return count

    monkeypatch.setattr(known_lines.KnownLines, "see", counted)
    asyncio.run(talk())


def in_file(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]


OPERATIONS = st.sampled_from(
    ["send", "send", "swipe", "edit", "hide", "delete", "undo", "own", "keep", "change kept", "direct", "add", "branch"]
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(st.tuples(OPERATIONS, st.integers(0, LINES - 50)), min_size=3, max_size=8))
@example(done=[("send", 0), ("keep", 5), ("send", 0), ("change kept", 0)])
@example(done=[("add", 0), *[("send", 0)] * 20, ("change kept", 0)])
@example(done=[("send", 0), ("direct", 5), ("send", 0), ("own", 7), ("branch", 90), ("undo", 0), ("edit", 9)])
def test_every_change_of_a_line_is_saved_with_the_next_turn(tmp_path: Path, done: list[tuple[str, int]]) -> None:
    path = tmp_path / "chat.jsonl"

    async def talk() -> None:
        path.unlink(missing_ok=True)
        async with opened(path) as chat:
            own = own_chat(chat)
            kept: list[JsonObject] = []
            for number, (what, place) in enumerate(done):
                text = f"{what} {number}"
                if what == "swipe":
                    await chat.swipe()
                elif what == "edit":
                    await chat.edit(place, text)
                elif what == "hide":
                    await chat.hide(place)
                elif what == "delete":
                    await chat.delete(place)
                elif what == "undo":
                    await chat.undo()
                elif what == "own":
                    own.edit(place, text)
                elif what == "keep":
                    kept.append(own.lines[place])
                elif what == "direct":
                    own.hide(place, place + 3)
                    own.state.lines[place]["mes"] = text
                elif what == "add":
                    kept.append({"name": "Bel", "mes": text, "extra": {}})
                    own.add_line(kept[-1])
                elif what == "branch":
                    twin = await chat.branch(place, store=tk.conversation.MemoryStore())
                    await twin.edit(0, text)
                for line in kept if what == "change kept" else ():
                    line["extra"] = {"note": text}
                await chat.send("And then?")
                assert in_file(path) == own.state.turn_lines
                assert all(line in own.state.turn_lines for line in kept[-1:] if what == "add")

    asyncio.run(talk())


def test_a_command_may_change_any_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def talk() -> None:
        async with opened(path) as chat:
            await chat.send("/hide 3-4")
            assert "Line 3." not in [message.content for message in chat.preview("Now?").messages]
            await chat.undo()
            await chat.send("/hide 7")

    asyncio.run(talk())
    saved = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]
    assert [place for place, line in enumerate(saved) if line.get("is_system")] == [7]


parts = st.lists(st.sampled_from([b"", b"a", b"bc", b"d\n", b"\n"]), max_size=150)


@given(seen=st.lists(parts, max_size=4), grown=parts)
def test_what_grows_is_joined_and_hashed_as_a_whole(seen: list[list[bytes]], grown: list[bytes]) -> None:
    join, digest, of_file = GrowingJoin(b","), undo.GrowingDigest(), undo.FileDigest()
    before: list[bytes] = []
    for part in (*seen, grown, [*grown, b"more"], [*grown[:-1], b"other"], grown * 3, []):
        same, before = same_start(before, part), part
        joined = join.join(part, same)
        assert b"".join(joined) == b",".join(part)
        assert digest.of(part, same) == hashlib.sha256(b"".join(part)).hexdigest()
        for file in (joined, [b"first", b" line\n", *joined], [b"first line\n", *joined, b"\nlast"]):
            first, ended, rest = b"".join(file).partition(b"\n")
            first, rest = (first + ended, rest) if ended else (b"", first)
            assert of_file.of(file) == hashlib.sha256(first).hexdigest() + hashlib.sha256(rest).hexdigest()


def test_contexts_of_the_same_lines_share_their_log(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path / "chat.jsonl") as chat:
            state = own_chat(chat).state
            log = state.inputs("normal").get("history")
            assert state.inputs("normal").get("history") is log
            await chat.send("First?")
            new = state.inputs("normal").get("history")
            assert isinstance(new, ChatLog)
            assert [line.mes for line in new.lines[-2:]] == ["First?", "One."]

    asyncio.run(talk())
