"""Files for running the service, and how a process ends."""

from __future__ import annotations

import configparser
import datetime
import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tavernkit.errors import ConfigError
from tavernkit.server import ServerConfig, load_config
from tavernkit.server import run as starting
from tavernkit.server.config import ENV_PREFIX
from tavernkit.server.logs import set_up_telemetry
from tavernkit.silly_tavern.providers._chat.page_body import yaml_object
from tavernkit.testing import ScriptedModel, answer, failure, streamed
from tests.server.conftest import StartApp
from tests.server.test_several_workers import processes

DEPLOY = Path(__file__).parents[2] / "deploy"
CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_image_is_pinned_runs_without_root_and_is_checked() -> None:
    found = instructions()
    images = [value for name, value in found if name == "FROM"]
    assert all(":" in image and "latest" not in image for image in images)
    users = [value for name, value in found if name == "USER"]
    assert users[-1] not in ("root", "0")
    assert any("/ready" in value for name, value in found if name == "HEALTHCHECK")
    copied = [part for name, value in found if name == "COPY" and "--from" not in value for part in value.split()[:-1]]
    assert all((DEPLOY.parent / part).exists() for part in copied)
    sent = {line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == {Path(part).name for part in copied}  # nothing else goes to the builder
    assert all("--no-cache-dir" in value for name, value in found if name == "RUN" and "pip install" in value)
    started = [json.loads(value) for name, value in found if name in ("ENTRYPOINT", "CMD")]  # no shell is in between
    assert started == [["tavernkit"], ["serve"]]


def test_settings_of_the_image_and_the_compose_file_are_known(tmp_path: Path) -> None:
    compose: Any = yaml_object((DEPLOY / "compose.yaml").read_text(), pytest.fail)
    service = compose["services"]["tavernkit"]
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in compose["services"]["database"]
    image = " ".join(value for name, value in instructions() if name == "ENV").split()
    environment = {**dict(each.split("=", 1) for each in image), **service["environment"]}
    given = {name: str(value) for name, value in environment.items() if name.startswith(ENV_PREFIX)}
    given[f"{ENV_PREFIX}CONFIG"] = str(DEPLOY / "server.toml")
    config = load_config(environment=given)
    assert (config.host, config.workers, config.default_upstream) == ("0.0.0.0", 2, "main")  # in a container
    assert config.database_url.startswith("postgresql+asyncpg://")
    assert config.upstreams["main"].api_key is not None
    known = {f"{ENV_PREFIX}{name.upper()}" for name in ServerConfig.model_fields}
    assert set(given) <= known | {f"{ENV_PREFIX}CONFIG", f"{ENV_PREFIX}UPSTREAM_MAIN_API_KEY"}


def test_the_unit_starts_the_service_and_waits_for_its_end() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "tavernkit.service")
    service = unit["Service"]
    assert "tavernkit serve --config" in service["ExecStart"]
    assert int(service["TimeoutStopSec"]) > ServerConfig().shutdown_seconds
    assert (service["DynamicUser"], service["KillSignal"]) == ("yes", "SIGTERM")


def test_sigterm_ends_with_0(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tavernkit", "serve", "--json", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert httpx.get(f"{url}/ready", timeout=30).status_code == 200
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "both.pem"
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_certificate_makes_it_https(tmp_path: Path, certificate: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(f'tls_certificate = "{certificate}"\n')
    with processes(tmp_path, "--config", str(config)) as told:
        assert told["url"].startswith("https://")
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        assert httpx.get(f"{told['url']}/health", verify=trusting, timeout=30).status_code == 200


def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "no.pem"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "missing.pem"):
        config = ServerConfig(data=tmp_path, port=0, tls_certificate=path)
        with pytest.raises(ConfigError, match="certificate"):
            starting._check_certificate(config)
    with pytest.raises(ConfigError, match="tls_certificate"):
        starting._check_certificate(ServerConfig(tls_key=broken))


def test_an_exporter_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    set_up_telemetry(ServerConfig(telemetry=True))
    with pytest.raises(ConfigError, match="opentelemetry-exporter"):
        set_up_telemetry(ServerConfig(telemetry=True, telemetry_endpoint="http://127.0.0.1:4318"))


async def test_tokens_errors_and_the_first_token_are_measured(start: StartApp) -> None:
    counts: Any = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    model = ScriptedModel(answer("Hi.", usage=counts), streamed("H", "i.", usage=counts), failure(401))
    async with start(model) as client:
        for body in (HELLO, {**HELLO, "stream": True}, HELLO):
            await client.post(CHAT, json=body)
        text = (await client.get("/metrics")).text
    assert 'tavernkit_tokens_total{kind="input",upstream="scripted"} 18.0' in text
    assert 'tavernkit_tokens_total{kind="cached",upstream="scripted"} 16.0' in text
    assert 'tavernkit_tokens_total{kind="output",upstream="scripted"} 8.0' in text
    assert 'tavernkit_upstream_errors_total{reason="401",upstream="scripted"} 1.0' in text
    assert 'tavernkit_first_token_seconds_count{upstream="scripted"} 1.0' in text
