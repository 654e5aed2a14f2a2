"""Sessions: what is kept, when, and that nothing happens twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest

from tavernkit._values import LRUCache
from tavernkit.models._scripted import Disconnect, Hang
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import library
from tavernkit.server.storage import chats
from tavernkit.server.storage.lines import read_lines
from tavernkit.server.turns import turn_log
from tavernkit.testing import ScriptedModel, answer, failure, streamed
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"


def says(text: str, **more: object) -> dict[str, object]:
    return {"model": "aria", "messages": [{"role": "user", "content": text}], **more}


def sent_to(model: ScriptedModel, number: int) -> list[dict[str, Any]]:
    messages: Any = model.requests[number]["messages"]
    return messages


async def lines_of(client: Client, session: str = "s") -> list[tuple[str, str, str]]:
    database = client.service.database
    async with database.read() as connection:
        chat = await chats.find_chat(connection, "local", session)
        assert chat is not None
        return [(line.role, line.content, line.status) for line in await read_lines(connection, chat.id)]


async def test_a_stateless_request_leaves_nothing_behind(start: StartApp) -> None:
    model = ScriptedModel("Hello.")
    async with start(model) as client:
        reply = (await client.post(CHAT, json=says("Hi"))).json()
        async with client.service.database.read() as connection:
            assert await chats.list_chats(connection, None) == []
    assert reply["choices"][0]["message"]["content"] == "Hello."
    sent = sent_to(model, 0)
    assert sent[-1] == {"role": "user", "content": "Hi"}
    assert any("lighthouse" in str(message) for message in sent)


async def test_a_session_begins_with_the_greeting_and_keeps_the_chat(start: StartApp) -> None:
    model = ScriptedModel("One.", "Two.")
    headers = {"X-Tavern-Session": "s"}
    async with start(model) as client:
        await client.post(CHAT, json=says("first"), headers=headers)
        await client.post(CHAT, json=says("second"), headers=headers)
        lines = await lines_of(client)
    assert [line[0] for line in lines] == ["assistant", "user", "assistant", "user", "assistant"]
    assert "User" in lines[0][1]
    assert "{{user}}" not in lines[0][1]
    assert [line[1] for line in lines[1:]] == ["first", "One.", "second", "Two."]
    second = [message["content"] for message in sent_to(model, 1) if message["role"] != "system"]
    assert second[-3:] == ["first", "One.", "second"]


async def test_the_user_field_is_a_session_too(start: StartApp) -> None:
    async with start(ScriptedModel("One.")) as client:
        reply = (await client.post(CHAT, json=says("hi", user="discord:7"))).json()
        assert reply["tavernkit"]["session"] == "discord:7"
        assert len(await lines_of(client, "discord:7")) == 3


async def test_clients_may_send_their_whole_history_into_a_session(start: StartApp) -> None:
    messages = [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "older reply"},
        {"role": "user", "content": "new"},
    ]
    async with start(ScriptedModel("One.")) as client:
        await client.post(CHAT, json={"model": "aria", "messages": messages, "user": "s"})
        lines = await lines_of(client)
    assert [line[1] for line in lines[1:]] == ["new", "One."]


async def test_the_users_message_is_stored_before_the_model_is_called(start: StartApp) -> None:
    seen: list[list[tuple[str, str, str]]] = []

    class Model(ScriptedModel):
        async def send(self, request: Any, **options: Any) -> Any:
            seen.append(await lines_of(client))
            return await super().send(request, **options)

    async with start(Model("Hello.")) as client:
        await client.post(CHAT, json=says("Hi", user="s"))
    assert seen[0][-1][:2] == ("user", "Hi")


async def test_a_failed_turn_keeps_the_message_and_a_repeat_does_not_double_it(start: StartApp) -> None:
    model = ScriptedModel(failure(400, "no"), "Now.")
    async with start(model) as client:
        failed = await client.post(CHAT, json=says("Hi", user="s"))
        assert failed.status_code == 400
        assert failed.json()["error"]["code"] == "upstream_error"
        assert [line[1] for line in await lines_of(client)][1:] == ["Hi"]
        await client.post(CHAT, json=says("Hi", user="s"))
        assert [line[1] for line in await lines_of(client)][1:] == ["Hi", "Now."]


async def test_a_full_session_can_be_read_and_made_shorter(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_log, "MAX_SESSION_MESSAGES", 4)
    async with start(ScriptedModel("one", "two", "three")) as client:
        await client.post(CHAT, json=says("Hi", user="s"))
        last = await client.post(CHAT, json=says("Hi", user="s"))
        session = last.json()["tavernkit"]["session_id"]
        refused = await client.post(CHAT, json=says("Hi", user="s"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_too_long")
        messages = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
        assert len(messages) == 5
        await client.delete(f"/api/sessions/{session}/messages/{messages[3]['id']}?following=true")
        assert (await client.post(CHAT, json=says("Hi", user="s"))).status_code == 200


async def test_a_session_does_not_get_too_long_by_several_messages_at_once(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_log, "MAX_SESSION_MESSAGES", 4)
    lines = [{"role": "user", "content": f"m{number}"} for number in range(4)]
    async with start(ScriptedModel("one")) as client:
        refused = await client.post(CHAT, json={**says("", user="s"), "messages": lines})
        taken = await client.post(CHAT, json={**says("", user="t"), "messages": lines[:3]})
    assert (refused.status_code, taken.status_code) == (409, 200)


async def test_the_same_words_with_another_picture_are_no_repetition(start: StartApp) -> None:
    def shows(url: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": url}}]
        return {**says("", user="s"), "messages": [{"role": "user", "content": parts}]}

    model = ScriptedModel(failure(400), failure(400), "Now.")
    async with start(model) as client:
        for url in ("https://a.example/1.png", "https://a.example/1.png", "https://a.example/2.png"):
            await client.post(CHAT, json=shows(url))
        said = [line[1] for line in await lines_of(client)][1:]
    assert said == ["Look", "Look", "Now."]
    assert "2.png" in json.dumps(model.requests[-1])


async def test_a_repeated_idempotency_key_does_nothing_twice(start: StartApp) -> None:
    model = ScriptedModel("One.", "Two.")
    headers = {"Idempotency-Key": "k"}
    async with start(model) as client:
        first = (await client.post(CHAT, json=says("Hi", user="s"), headers=headers)).json()
        again = (await client.post(CHAT, json=says("Hi", user="s"), headers=headers)).json()
        streamed_again = (await client.post(CHAT, json=says("Hi", user="s", stream=True), headers=headers)).text
        other = await client.post(CHAT, json=says("Something else", user="s"), headers=headers)
        lines = await lines_of(client)
    assert again["choices"] == first["choices"]
    assert again["tavernkit"]["replayed"] is True
    assert "One." in streamed_again
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert len(model.requests) == 1
    assert len(lines) == 3


@pytest.mark.parametrize("change", [{"seed": 2}, {"upstream": "scripted"}, {"dialect": "openai"}])
async def test_an_idempotency_key_is_for_one_model_and_one_seed(start: StartApp, change: dict[str, Any]) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {"model": "aria", "messages": [{"role": "user", "content": "hi"}]}
    async with start(ScriptedModel("one", "two")) as client:
        await client.post("/v1/chat/completions", json=body, headers=headers)
        other = await client.post("/v1/chat/completions", json={**body, "tavernkit": change}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_an_idempotency_key_works_without_a_session(start: StartApp) -> None:
    model = ScriptedModel("One.", "Two.")
    headers = {"Idempotency-Key": "k"}
    async with start(model) as client:
        first = (await client.post(CHAT, json=says("Hi"), headers=headers)).json()
        again = (await client.post(CHAT, json=says("Hi"), headers=headers)).json()
    assert first["choices"] == again["choices"]
    assert len(model.requests) == 1


async def test_a_failed_turn_is_taken_up_again_with_its_key(start: StartApp) -> None:
    model = ScriptedModel(failure(400), "Now.")
    headers = {"Idempotency-Key": "k"}
    async with start(model) as client:
        await client.post(CHAT, json=says("Hi", user="s"), headers=headers)
        second = await client.post(CHAT, json=says("Hi", user="s"), headers=headers)
        assert second.status_code == 200
        assert [line[1] for line in await lines_of(client)][1:] == ["Hi", "Now."]


async def test_a_broken_stream_is_kept_as_a_partial_reply(start: StartApp) -> None:
    async with start(ScriptedModel(Disconnect(after=["Once ", "upon"]))) as client:
        text = (await client.post(CHAT, json=says("Hi", user="s", stream=True))).text
        lines = await lines_of(client)
    assert '"error"' in text
    assert "[DONE]" not in text
    assert lines[-1] == ("assistant", "Once upon", "partial")


async def test_one_writer_a_chat(start: StartApp) -> None:
    model = ScriptedModel(*(f"reply {number}" for number in range(8)))
    async with start(model) as client:
        await asyncio.gather(*(client.post(CHAT, json=says(f"m{number}", user="s")) for number in range(8)))
        lines = await lines_of(client)
    assert [line[0] for line in lines[1:]] == ["user", "assistant"] * 8
    assert sorted(line[1] for line in lines[1::2]) == [f"m{number}" for number in range(8)]


async def test_two_processes_are_one_service(start: StartApp, settings: dict[str, object]) -> None:
    """Two services against one database take turns with a chat as one would."""
    models = [ScriptedModel(*(f"{name}{number}" for number in range(6))) for name in "ab"]
    async with start(models[0]) as one, start(models[1]) as two:
        posts = [each.post(CHAT, json=says(f"m{number}", user="s")) for number in range(6) for each in (one, two)]
        replies = await asyncio.gather(*posts)
        lines = await lines_of(one)
    assert {reply.status_code for reply in replies} == {200}
    assert [line[0] for line in lines[1:]] == ["user", "assistant"] * 12


async def test_a_turn_waits_for_the_one_before_and_gives_up_in_time(start: StartApp) -> None:
    async with start(ScriptedModel(Hang(), "Two."), busy_seconds=0.05, shutdown_seconds=0) as client:
        first = asyncio.create_task(client.post(CHAT, json=says("a", user="s")))
        while not client.service.turns._running:  # noqa: ASYNC110  # until the first turn runs
            await asyncio.sleep(0)
        second = await client.post(CHAT, json=says("b", user="s"))
        assert (second.status_code, second.json()["error"]["code"]) == (409, "session_busy")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_one_that_comes_between_two_others_gives_up_in_time(start: StartApp) -> None:
    async with start(busy_seconds=0.05) as client:
        turn_of = client.service.turns._turn_of
        end = asyncio.Event()

        async def wait_for_the_end() -> None:
            async with turn_of("s"):
                await end.wait()

        async with turn_of("s"):
            waiting = asyncio.create_task(wait_for_the_end())
            await asyncio.sleep(0)
        with pytest.raises(ServiceError, match="another turn"):  # the lock is free, but promised
            async with asyncio.timeout(5), turn_of("s"):
                pass
        end.set()
        await waiting


async def test_variables_and_timed_effects_are_kept(start: StartApp) -> None:
    async with start(ScriptedModel("ok", "ok", "ok")) as client:
        await client.post(CHAT, json=says("{{setvar::gold::3}}{{setglobalvar::fame::9}}I find gold.", user="s"))
        await client.post(CHAT, json=says("I have {{getvar::gold}} coins.", user="s"))
        await client.post(CHAT, json=says("They know me: {{getglobalvar::fame}}, {{getvar::gold}}.", user="t"))
        first, second = await lines_of(client, "s"), await lines_of(client, "t")
    assert first[1][1] == "I find gold."
    assert first[3][1] == "I have 3 coins."
    assert second[1][1] == "They know me: 9, ."


async def test_a_text_that_looks_like_a_command_is_sent(start: StartApp) -> None:
    model = ScriptedModel("ok")
    async with start(model) as client:
        await client.post(CHAT, json=says("/me waves", user="s"))
        assert (await lines_of(client))[1][1] == "/me waves"
    assert sent_to(model, 0)[-1]["content"] == "/me waves"


async def test_a_session_stays_with_its_character(client: Client) -> None:
    await client.post(CHAT, json=says("Hi", user="s"))
    other = await client.post(CHAT, json={**says("Hi", user="s"), "model": "group:crew"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "session_mismatch")


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_both_platforms_keep_sessions(start: StartApp, platform: str) -> None:
    model = ScriptedModel("One.", streamed("Tw", "o."), answer("Three."))
    extension = {"tavernkit": {"platform": platform}}
    async with start(model) as client:
        for number, stream in enumerate((False, True, False)):
            reply = await client.post(CHAT, json=says(f"m{number}", user="s", stream=stream, **extension))
            assert reply.status_code == 200
        lines = [line[1] for line in await lines_of(client)]
    assert lines[-6:] == ["m0", "One.", "m1", "Two.", "m2", "Three."]


async def messages(client: Client, base: str) -> list[Any]:
    return (await client.get(f"{base}/messages")).json()["data"]


async def _talk(client: Client, *, platform: str = "silly_tavern") -> str:
    body = {"model": "aria", "tavernkit": {"platform": platform}}
    made = await client.post("/api/sessions", json=body)
    assert made.status_code == 201, made.text
    base = f"/api/sessions/{made.json()['id']}"
    assert (await client.post(f"{base}/messages", json={"content": "The secret is blue."})).is_success
    return base


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_hidden_messages_are_left_out_of_prompts(start: StartApp, platform: str) -> None:
    model = ScriptedModel("Noted.", "No idea.", "Blue.", name="gpt-4o")
    async with start(model) as client:
        base = await _talk(client, platform=platform)
        said = next(each for each in await messages(client, base) if each["role"] == "user")
        assert not said["hidden"]
        for hidden in (True, False):
            changed = await client.patch(f"{base}/messages/{said['id']}", json={"hidden": hidden})
            assert changed.json()["hidden"] is hidden
            assert (await client.post(f"{base}/messages", json={"content": "Which colour?"})).is_success
            assert ("blue" in str(model.requests[-1]["messages"])) is not hidden


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_swipes_can_be_removed_but_for_the_only_one(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("one", "two", "three", name="gpt-4o")) as client:
        base = await _talk(client, platform=platform)
        for _ in range(2):
            assert (await client.post(f"{base}/swipe", json={})).is_success
        last = (await messages(client, base))[-1]
        path = f"{base}/messages/{last['id']}/swipes"
        gone = await client.delete(f"{path}/2")
        assert (gone.json()["content"], gone.json()["swipes"]) == ("two", ["one", "two"])
        left = await client.delete(f"{path}/0")
        assert (left.json()["content"], left.json()["swipes"], left.json()["swipe"]) == ("two", ["two"], 0)
        assert (await client.delete(f"{path}/0")).json()["error"]["code"] == "only_swipe"
        assert (await client.delete(f"{path}/7")).json()["error"]["code"] == "no_such_swipe"


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_quiet_prompt_leaves_the_chat_as_it_is(start: StartApp, platform: str) -> None:
    model = ScriptedModel("Hm.", "A summary.", name="gpt-4o")
    async with start(model) as client:
        base = await _talk(client, platform=platform)
        before = await messages(client, base)
        answer = await client.post(f"{base}/quiet", json={"prompt": "Sum up."})
        assert answer.json()["text"] == "A summary."
        assert await messages(client, base) == before
        assert "Sum up." in str(model.requests[-1]["messages"])
        assert (await client.post(f"{base}/quiet", json={"prompt": ""})).status_code == 422


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_reply_can_be_asked_for_without_a_message(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("one", "two", name="gpt-4o")) as client:
        base = await _talk(client, platform=platform)
        assert (await client.post(f"{base}/generate", json={})).json()["text"] == "two"
        assert [each["content"] for each in await messages(client, base)][-2:] == ["one", "two"]


async def test_lines_name_the_persona_who_spoke(start: StartApp) -> None:
    model = ScriptedModel("Hm.", "Oh.", name="gpt-4o")
    async with start(model) as client:
        ids = [(await client.post("/api/personas", json={"name": each})).json()["id"] for each in ("Ann", "Tom")]
        made = await client.post("/api/sessions", json={"model": "aria", "tavernkit": {"persona": ids[0]}})
        base = f"/api/sessions/{made.json()['id']}"
        assert (await client.post(f"{base}/messages", json={"content": "I am here."})).is_success
        assert (await client.patch(base, json={"persona": ids[1]})).is_success
        assert (await client.post(f"{base}/messages", json={"content": "So am I."})).is_success
    said = [each["content"] for each in sent_to(model, 1) if each["role"] == "user"]
    assert "Ann: I am here." in said
    assert "So am I." in said


async def test_a_greeting_without_an_answer_follows_the_persona(start: StartApp) -> None:
    async with start(ScriptedModel("Hm.", name="gpt-4o")) as client:
        ids = [(await client.post("/api/personas", json={"name": each})).json()["id"] for each in ("Ann", "Tom")]
        base = f"/api/sessions/{(await client.post('/api/sessions', json={'model': 'aria'})).json()['id']}"
        for name, persona in zip(("Ann", "Tom"), ids, strict=True):
            assert (await client.patch(base, json={"persona": persona})).is_success
            (greeting,) = await messages(client, base)
            assert name in greeting["content"]
        assert (await client.post(f"{base}/messages", json={"content": "Hello."})).is_success
        assert (await client.patch(base, json={"persona": ids[0]})).is_success
        assert "Tom" in (await messages(client, base))[0]["content"]


async def test_a_card_that_is_parsed_does_not_stop_other_writers(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card is parsed at its first use in a process, and after each change."""
    began, others_wrote = threading.Event(), threading.Event()
    parse, waits = library.parse_item, list[bool]()

    def slowly(*args: Any) -> object:
        if args[0] == "character":
            began.set()
            waits.append(others_wrote.wait(5))
        return parse(*args)

    async def write_meanwhile(client: Client, request: Awaitable[httpx.Response]) -> None:
        began.clear()
        others_wrote.clear()
        client.service.library._parsed = LRUCache(9)
        client.service.library._casts = LRUCache(9)
        running = asyncio.ensure_future(request)
        assert await asyncio.to_thread(began.wait, 5)
        stored = await client.post("/api/personas", json={"name": "Bob"})
        others_wrote.set()
        answer = await running
        assert (stored.status_code, answer.is_success) == (201, True), answer.text

    async with start(ScriptedModel("One.", "Two.")) as client:
        monkeypatch.setattr(library, "parse_item", slowly)
        await write_meanwhile(client, client.post(CHAT, json=says("Hi", user="s")))
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        path = f"/api/sessions/{session}"
        message = (await client.get(f"{path}/messages")).json()["data"][0]["id"]
        for request in (
            client.post(f"{path}/messages", json={"content": "Again"}),
            client.post("/api/sessions", json={"model": "aria"}),
            client.patch(path, json={"variables": {"a": "b"}}),
            client.patch(f"{path}/messages/{message}", json={"content": "Changed"}),
        ):
            await write_meanwhile(client, request)
    assert waits == [True] * 5
