"""SillyTavern's settings of chats: what prompts and replies become by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit.server.limits import MAX_SETTINGS_CHARACTERS, MAX_STOP_STRINGS
from tavernkit.testing import ScriptedModel, streamed
from tests.server.conftest import Client, StartApp
from tests.server.st_replay import write_folder
from tests.server.test_clean_up import content, last
from tests.server.test_groups import crew, stored
from tests.server.test_groups import says as says_to_crew
from tests.server.test_imports import ROOT, finished, zipped
from tests.server.test_sessions import CHAT, says

SETTINGS = "/api/settings"

CHATML = {
    "enabled": True,
    "input_sequence": "<|im_start|>user",
    "output_sequence": "<|im_start|>assistant",
    "stop_sequence": "<|im_end|>",
    "sequences_as_stop_strings": True,
}


@pytest.mark.parametrize(
    ("chosen", "said", "kept"),
    [
        ({"custom_stopping_strings": '["[END]"]'}, "Well.\n[EN", "Well."),
        ({"custom_stopping_strings": '["<{{char}}>"]'}, "Well.<Ari", "Well."),
        ({"custom_stopping_strings": '["<{{char}}>"]', "custom_stopping_strings_macro": False}, "Hm.<Ari", "Hm.<Ari"),
        ({"context": {"use_stop_strings": True, "chat_start": "--- chat", "example_separator": ""}}, "A.\n--- c", "A."),
        ({"context": {"use_stop_strings": False, "names_as_stop_strings": False}}, "Well.\nUs", "Well.\nUs"),
        ({}, "Well.\nUs", "Well."),
        ({"instruct": CHATML}, "Well.<|im_end|>\n<|im_start|>user", "Well."),
        ({"instruct": {**CHATML, "enabled": False}}, "Well.<|im_end|>", "Well.<|im_end|>"),
        ({"instruct": CHATML}, "<|im_start|>assistant\nWell.", "Well."),
        ({"trim_sentences": True}, "Well. And the", "Well."),
        ({"collapse_newlines": True}, "Well.\n\n\nSo.", "Well.\nSo."),
        ({"trim_spaces": False}, " Well.", " Well."),
        ({"auto_fix_generated_markdown": False}, "2 * 3 * 4", "2 * 3 * 4"),
        ({"allow_name1_display": True}, "Well.\nUser: no.", "Well.\nUser: no."),
        ({"allow_name2_display": True}, "Aria: Well.", "Aria: Well."),
    ],
)
async def test_replies_are_cleaned_up_by_the_settings(
    chosen: dict[str, Any], said: str, kept: str, start: StartApp
) -> None:
    async with start(ScriptedModel(said)) as client:
        assert (await client.put(SETTINGS, json=chosen)).json() == {"settings": chosen, "warnings": []}
        assert content(await client.post(CHAT, json=says("Hi", user="s"))) == kept
        assert await last(client) == kept


async def test_a_stream_is_stored_by_the_settings(start: StartApp) -> None:
    async with start(ScriptedModel(streamed("Well. And ", "the"))) as client:
        await client.put(SETTINGS, json={"trim_sentences": True})
        told = (await client.post(CHAT, json=says("Hi", user="s", stream=True))).text
        assert await last(client) == "Well."
    assert '"content":"Well."' in told.rsplit('"tavernkit"', 1)[1]


async def test_members_may_speak_for_each_other_if_the_settings_say_so(start: StartApp) -> None:
    async with crew(start, ScriptedModel("I am A.\nBel: I am B.", "Fine.", "Fine.")) as client:
        await client.put(SETTINGS, json={"disable_group_trimming": True})
        await client.post(CHAT, json=says_to_crew("Names?"))
        assert (await stored(client))[1][1] == "I am A.\nBel: I am B."


@pytest.mark.parametrize("stop", ["[END]", ["no", "[END]"], [*["x"] * (MAX_STOP_STRINGS - 1), "[END]"]])
async def test_what_a_client_stops_at_is_cut_when_it_has_begun(stop: object, start: StartApp) -> None:
    async with start(ScriptedModel("Well. [EN")) as client:
        assert content(await client.post(CHAT, json=says("Hi", user="s", stop=stop))) == "Well."


async def test_the_model_is_told_the_users_stop_strings(start: StartApp) -> None:
    model = ScriptedModel("Well.", "Well.", "Well.")
    async with start(model) as client:
        preset = json.dumps({"prompts": [], "openai_model": "gpt-4o"}).encode()  # newer ones take no stop strings
        await client.post("/api/presets", files={"file": ("old.json", preset)})
        await client.post(CHAT, json=says("Hi", model="aria@old"))
        await client.put(SETTINGS, json={"custom_stopping_strings": '["[{{char}}]"]'})
        await client.post(CHAT, json=says("Hi", model="aria@old"))
        assert (await client.delete(SETTINGS)).status_code == 204
        await client.post(CHAT, json=says("Hi", model="aria@old"))
    assert [request.get("stop") for request in model.requests] == [None, ["[Aria]"], None]


async def test_settings_that_are_none_are_refused(client: Client) -> None:
    async def refused(body: object) -> tuple[int, str]:
        reply = await client.put(SETTINGS, json=body)
        return reply.status_code, reply.json()["error"]["code"]

    assert await refused({"trim_sentence": True}) == (422, "unknown_setting")
    assert await refused([1]) == (422, "invalid_request")
    assert await refused({"user_prompt_bias": "x" * MAX_SETTINGS_CHARACTERS}) == (422, "settings_too_long")
    assert (await client.get(SETTINGS)).json() == {"settings": {}, "warnings": []}
    assert (await client.delete(SETTINGS)).status_code == 404


async def test_values_that_cannot_be_used_are_told(client: Client) -> None:
    reply = (await client.put(SETTINGS, json={"user_prompt_bias": ["no"], "context": 7})).json()
    assert len(reply["warnings"]) == 2
    assert (await client.get(SETTINGS)).json()["settings"] == {"user_prompt_bias": ["no"], "context": 7}


async def test_an_import_brings_settings_where_there_are_none(start: StartApp) -> None:
    power_user = {"trim_sentences": True, "theme": "dark", "personas": {}, "instruct": CHATML}
    archive = zipped({f"{ROOT}/settings.json": json.dumps({"power_user": power_user}).encode()})
    async with start(ScriptedModel("Well. And")) as client:
        first = await finished(client, {"file": ("st.zip", archive)})
        assert (await client.get(SETTINGS)).json()["settings"] == {"trim_sentences": True, "instruct": CHATML}
        assert content(await client.post(CHAT, json=says("Hi"))) == "Well."
        await client.put(SETTINGS, json={"trim_spaces": False})
        second = await finished(client, {"file": ("st.zip", archive)})
        assert (await client.get(SETTINGS)).json()["settings"] == {"trim_spaces": False}
    assert first["result"] == {"imported": {"settings": 1}, "warnings": []}
    told = (
        "settings.json: settings of chats are left out, because there are settings already; "
        "change them with PUT /api/settings"
    )
    assert second["result"] == {"imported": {}, "warnings": [told]}


async def test_risuais_settings_are_those_of_its_database(start: StartApp) -> None:
    model = ScriptedModel("The road", " goes on.", name="gpt-4o")
    path = "/api/settings?platform=risu_ai"
    async with start(model) as client:
        assert (await client.put(path, json={"trim_spaces": True})).json()["error"]["code"] == "unknown_setting"
        stored = await client.put(path, json={"autoContinueChat": True, "loreBookDepth": "deep"})
        assert stored.json()["settings"]["autoContinueChat"] is True
        assert any("loreBookDepth" in warning for warning in stored.json()["warnings"])
        assert (await client.get("/api/settings")).json()["settings"] == {}
        body = {"model": "aria", "tavernkit": {"platform": "risu_ai"}}
        session = (await client.post("/api/sessions", json=body)).json()["id"]
        said = await client.post(f"/api/sessions/{session}/messages", json={"content": "Go on."})
        assert said.json()["text"] == "The road goes on."
        assert (await client.delete(path)).status_code == 204
        assert (await client.get(path)).json()["settings"] == {}


async def test_global_variables_are_shared_by_the_chats_of_a_platform(start: StartApp) -> None:
    model = ScriptedModel("Hm.", name="gpt-4o")
    async with start(model) as client:
        assert (await client.put("/api/variables", json={"mood": "calm"})).is_success
        session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
        said = {"content": "I am {{getglobalvar::mood}}.{{setglobalvar::mood::cross}}"}
        assert (await client.post(f"/api/sessions/{session}/messages", json=said)).is_success
        assert (await client.get("/api/variables")).json() == {"mood": "cross"}
        assert (await client.get("/api/variables?platform=risu_ai")).json() == {}
        too_long = await client.put("/api/variables", json={"a": "x" * 70_000})
        assert too_long.json()["error"]["code"] == "variables_too_long"
    assert "I am calm." in str(model.requests[0]["messages"])


async def test_a_save_brings_its_settings_along(start: StartApp, tmp_path: Path) -> None:
    path = tmp_path / "save.bin"
    risu_ai.Save.from_json({"characters": [], "loreBookDepth": 9, "openAIKey": "secret"}).save(path)
    async with start() as client:
        job = await finished(client, {"file": ("save.bin", path.read_bytes())})
        assert job["result"]["imported"]["settings"] == 1
        assert (await client.get("/api/settings?platform=risu_ai")).json()["settings"]["loreBookDepth"] == 9
        assert "secret" not in (await client.get("/api/settings?platform=risu_ai")).text


async def test_a_reply_that_is_swiped_automatically_is_one_reply(start: StartApp, tmp_path: Path) -> None:
    given = {
        "card": {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Mira", "first_mes": "Hi."}},
        "power_user": {"auto_swipe": True, "auto_swipe_minimum_length": 6},
        "user_name": "Ann",
    }
    write_folder(tmp_path / "default-user", given)
    model = ScriptedModel("No.", "A long reply.", name="gpt-4o")
    async with start(model, user_name="Ann", from_sillytavern=tmp_path / "default-user") as client:
        item = (await client.get("/api/characters")).json()["data"][0]["id"]
        session = (await client.post("/api/sessions", json={"model": item})).json()["id"]
        said = (await client.post(f"/api/sessions/{session}/messages", json={"content": "Well?"})).json()
        last = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][-1]
    assert (said["text"], said["replies"], said["message_id"]) == ("A long reply.", [], last["id"])
    assert last["swipes"] == ["No.", "A long reply."]
