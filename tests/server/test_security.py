"""Keys, limits, secrets, and what is said about them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from tavernkit.server import ServerConfig, load_config
from tavernkit.server.config import parse_upstream
from tavernkit.server.keys import digest_of
from tavernkit.server.storage.tables import ApiKey, UpstreamSecret
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
HELLO = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}
ADMIN = {"Authorization": "Bearer the-admin-key"}
KEYED: dict[str, object] = {"require_keys": True, "admin_key": "the-admin-key"}


async def new_key(client: Client, **fields: object) -> dict[str, str]:
    body = {"name": "bot", "scopes": ["chat"], **fields}
    made = (await client.post("/api/keys", json=body, headers=ADMIN)).json()
    return {"Authorization": f"Bearer {made['key']}", "id": made["id"]}


async def test_keys_are_needed_off_loopback_only() -> None:
    assert not ServerConfig().keys_required
    assert not ServerConfig(host="::1").keys_required
    assert ServerConfig(host="0.0.0.0").keys_required


async def test_a_key_opens_what_its_scopes_say_until_it_is_revoked(start: StartApp) -> None:
    async with start(ScriptedModel("one", "two"), **KEYED) as client:
        assert (await client.post(CHAT, json=HELLO)).status_code == 401
        wrong = await client.post(CHAT, json=HELLO, headers={"Authorization": "Bearer tk-wrong"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        foreign = await client.post(CHAT, json=HELLO, headers={"Authorization": "Bearer sk-proj-1"})
        assert "not one of this server's" in foreign.json()["error"]["message"]
        key = await new_key(client)
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 200
        refused = await client.get("/api/characters", headers=key)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
        assert (await client.get("/api/keys", headers=key)).status_code == 403
        assert (await client.delete(f"/api/keys/{key['id']}", headers=ADMIN)).status_code == 204
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 401
        assert (await client.get("/health")).status_code == 200


async def test_only_a_hash_of_a_key_is_stored(start: StartApp) -> None:
    async with start(**KEYED) as client:
        key = (await new_key(client))["Authorization"].removeprefix("Bearer ")
        async with client.service.database.read() as connection:
            rows = (await connection.execute(ApiKey.__table__.select())).all()
    assert key not in repr(rows)
    assert digest_of(key) in repr(rows)


async def test_sessions_belong_to_the_key_that_made_them(start: StartApp) -> None:
    async with start(ScriptedModel("one", "two"), **KEYED) as client:
        first, second = await new_key(client), await new_key(client)
        made = (await client.post(CHAT, json={**HELLO, "user": "s"}, headers=first)).json()
        path = f"/api/sessions/{made['tavernkit']['session_id']}"
        assert (await client.get(path, headers=first)).status_code == 200
        assert (await client.get(path, headers=second)).status_code == 404
        assert (await client.get("/api/sessions", headers=second)).json()["data"] == []
        other = (await client.post(CHAT, json={**HELLO, "user": "s"}, headers=second)).json()
        assert other["tavernkit"]["session_id"] != made["tavernkit"]["session_id"]


async def test_a_key_may_ask_so_often_a_minute(start: StartApp) -> None:
    async with start(**KEYED) as client:
        key = await new_key(client, rate_limit=3)
        statuses = [(await client.get("/v1/models", headers=key)).status_code for _ in range(6)]
        limited = await client.get("/v1/models", headers=key)
    assert statuses[0] == 200
    assert 429 in statuses
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert int(limited.headers["retry-after"]) >= 1


async def test_an_upstreams_key_is_stored_encrypted_or_not_at_all(
    start: StartApp, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-very-secret"
    path, body = "/api/upstreams/scripted/key", {"api_key": secret}
    async with start() as client:
        refused = await client.put(path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "secret_key_missing")
    async with start(secret_key="pass phrase") as client:
        assert (await client.put(path, json=body)).status_code == 204
        async with client.service.database.read() as connection:
            rows = (await connection.execute(UpstreamSecret.__table__.select())).all()
        assert client.service.secrets.open(rows[0].sealed) == secret
    assert secret not in repr(rows)
    for changed in ({"secret_key": "another"}, {}):
        caplog.clear()
        async with start(**changed) as client:
            await client.get("/v1/models")
        assert caplog.text.count("stored key of the upstream 'scripted' is not used") == 1


async def test_only_upstreams_have_keys(start: StartApp) -> None:
    """A route has none: those behind it have."""
    upstreams = {"main": {"route": [{"upstream": "own"}]}, "own": {"dialect": "scripted"}}
    async with start(secret_key="pass phrase", upstreams=upstreams) as client:
        for name, status in (("own", 204), ("main", 404), ("nothing", 404)):
            reply = await client.put(f"/api/upstreams/{name}/key", json={"api_key": "k"})
            assert reply.status_code == status, reply.text


async def test_secrets_and_words_are_not_logged(start: StartApp, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="tavernkit"):
        async with start(ScriptedModel("a reply of note"), **KEYED, secret_key="pass phrase") as client:
            key = await new_key(client)
            await client.post(CHAT, json={**HELLO, "user": "s"}, headers={**key, "X-Request-ID": "r-1"})
            config = repr(client.service.config)
    said = "\n".join(record.getMessage() + repr(vars(record)) for record in caplog.records)
    for secret in (key["Authorization"].split()[1], "the-admin-key", "pass phrase", "a reply of note", "Hello"):
        assert secret not in said
        assert secret not in config
    assert "/v1/chat/completions" in said


async def test_pages_of_a_browser_cannot_use_a_server_without_keys(client: Client) -> None:
    foreign = await client.post(CHAT, json=HELLO, headers={"Origin": "https://evil.example"})
    rebound = await client.post(CHAT, json=HELLO, headers={"Host": "evil.example"})
    local = await client.get("/v1/models", headers={"Origin": "http://localhost:3000"})
    assert [foreign.status_code, rebound.status_code, local.status_code] == [403, 403, 200]
    assert "access-control-allow-origin" not in local.headers


async def test_every_answer_has_security_headers_and_a_request_id(client: Client) -> None:
    for path in ("/v1/models", "/nowhere", "/health"):
        headers = (await client.get(path, headers={"X-Request-ID": "abc"})).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"] == "abc"
        assert "default-src 'none'" in headers["content-security-policy"]


async def test_cors_is_for_the_origins_that_are_configured(start: StartApp) -> None:
    async with start(cors_origins=("https://mine.example",)) as client:
        mine = await client.get("/v1/models", headers={"Origin": "https://mine.example"})
    assert mine.headers["access-control-allow-origin"] == "https://mine.example"


async def test_large_requests_are_refused(client: Client) -> None:
    body = json.dumps({**HELLO, "padding": "x" * 9_000_000})
    refused = await client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large")


async def test_large_requests_that_do_not_tell_their_size_are_refused_as_well(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * 1_000_000

    refused = await client.post(CHAT, content=pieces(), headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("depth", [5_000, 1_000_000])  # how deep Python can read depends on its version
async def test_what_nests_too_deeply_is_the_clients_mistake(client: Client, depth: int) -> None:
    body = json.dumps(HELLO)[:-1] + ', "logit_bias": ' + "[" * depth + "]" * depth + "}"
    refused = await client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "nested_too_deeply")


async def test_an_admin_key_may_look_like_any_other(start: StartApp) -> None:
    async with start(require_keys=True, admin_key="tk-mine") as client:
        assert (await client.get("/api/keys", headers={"Authorization": "Bearer tk-mine"})).status_code == 200


async def test_what_a_failing_statement_was_given_is_not_told(client: Client) -> None:
    async with client.service.database.read() as connection:
        with pytest.raises(SQLAlchemyError) as failed:
            await connection.execute(text("SELECT nothing FROM nowhere WHERE it = :it"), {"it": "a private word"})
    assert "a private word" not in str(failed.value)


async def test_health_readiness_and_metrics(client: Client) -> None:
    await client.post(CHAT, json=HELLO)
    metrics = (await client.get("/metrics")).text
    assert (await client.get("/ready")).json() == {"status": "ready"}
    assert 'tavernkit_turns_total{kind="normal",status="done"} 1.0' in metrics
    assert 'route="/v1/chat/completions",status="200"' in metrics


def test_settings_come_from_file_environment_and_options(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.toml"  # type: ignore[operator]
    file.write_text('port = 1\nhost = "127.0.0.2"\n[upstreams.main]\nbase_url = "http://localhost:1"\n')
    environment = {"TAVERNKIT_SERVER_PORT": "2", "TAVERNKIT_SERVER_UPSTREAM_MAIN_API_KEY": "sk"}
    config = load_config(file, environment=environment, overrides={"workers": 3})
    assert (config.port, config.host, config.workers) == (2, "127.0.0.2", 3)
    key = config.upstreams["main"].api_key
    assert key is not None
    assert key.get_secret_value() == "sk"
    assert parse_upstream("https://x.example/v1#m") == (
        "openai",
        {"dialect": "openai", "base_url": "https://x.example/v1", "model": "m"},
    )


async def test_of_all_turns_that_find_the_keys_old_one_looks(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start(secret_key="pass phrase") as client:
        keys, looks = client.service.upstream_keys, list[None]()
        look = keys._look

        async def counted() -> None:
            looks.append(None)
            await look()

        monkeypatch.setattr(keys, "_look", counted)
        monkeypatch.setattr(keys, "_looked_at", float("-inf"))
        await asyncio.gather(*(keys.keep_fresh() for _ in range(10)))
    assert len(looks) == 1


async def test_the_docs_need_no_internet(client: Client) -> None:
    page = await client.get("/docs")
    assert page.status_code == 200
    assert "//" not in page.text.replace("<!doctype", "")
    assert "https" not in page.headers["content-security-policy"]
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        part = await client.get(f"/{name}")
        assert (part.status_code, len(part.text) > 50) == (200, True)
    assert "SwaggerUIBundle" in (await client.get("/docs/swagger-ui.js")).text
    assert (await client.get("/openapi.json")).json()["info"]["title"] == "TavernKit"
    assert [(await client.get(path)).status_code for path in ("/docs/other.js", "/redoc")] == [404, 404]


async def test_the_docs_are_behind_the_keys(start: StartApp) -> None:
    async with start(require_keys=True, admin_key="secret-key") as client:
        for path in ("/docs", "/openapi.json"):
            for wrong in ({}, {"Authorization": "Basic !"}, {"Authorization": "Basic bmFtZTp3cm9uZw=="}):
                refused = await client.get(path, headers=wrong)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"].startswith("Basic ")
            assert (await client.get(path, auth=("any", "secret-key"))).status_code == 200
            assert (await client.get(path, headers={"Authorization": "Bearer secret-key"})).status_code == 200


async def test_pages_of_configured_origins_can_read_why_a_request_was_refused(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {"Origin": "https://mine.example"}
    async with start(cors_origins=("https://mine.example",)) as client:
        large = await client.post(CHAT, content=b"x", headers={**page, "content-length": "9000000"})
        host = await client.get("/v1/models", headers={**page, "Host": "evil.example"})
        monkeypatch.setattr(client.service.turns, "start", None)
        failed = await client.post(CHAT, json=HELLO, headers=page)
        other = await client.get("/v1/models", headers={"Origin": "https://evil.example"})
        allowed = {**page, "Access-Control-Request-Method": "POST"}
        asked = await client.options(CHAT, headers=allowed)
    assert [each.status_code for each in (large, host, failed, other, asked)] == [413, 403, 500, 403, 200]
    for answer in (large, host, failed, asked):
        assert answer.headers["access-control-allow-origin"] == page["Origin"]
    assert "access-control-allow-origin" not in other.headers


async def test_refusals_of_messages_have_the_shape_of_anthropics(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, hello = "/v1/messages", {**HELLO, "max_tokens": 5}
    deep = json.dumps(hello)[:-1] + ', "metadata": ' + "[" * 5_000 + "]" * 5_000 + "}"
    answers = [
        await client.post(path, content=b"x", headers={"content-length": "9000000"}),
        await client.post(path, json=hello, headers={"Origin": "https://evil.example"}),
        await client.post(path, content=deep, headers={"content-type": "application/json"}),
    ]
    monkeypatch.setattr(client.service.turns, "start", None)
    answers.append(await client.post(path, json=hello))
    kinds = ["request_too_large", "permission_error", "invalid_request_error", "api_error"]
    assert [(each.json()["type"], each.json()["error"]["type"]) for each in answers] == [("error", k) for k in kinds]
    assert [each.status_code for each in answers] == [413, 403, 400, 500]


async def test_monitors_may_ask_for_headers_only(client: Client) -> None:
    assert [(await client.head(path)).status_code for path in ("/health", "/ready")] == [200, 200]
