"""Starting the service."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import FrameType, SimpleNamespace

from tavernkit._values import is_mapping, is_sequence
from tavernkit.errors import ConfigError
from tavernkit.server.config import CONFIG_VARIABLE, METRICS_FOLDER, STUDIO_FOLDER, ServerConfig, dump_config
from tavernkit.server.logs import set_up_logs, set_up_telemetry

# The rest of the service is imported when the socket is open and the workers' variables are set.

BACKLOG = 2048
STARTUP_FAILURE = 3
"""The exit code of uvicorn's workers that could not start."""


def serve(
    config: ServerConfig, *, say: Callable[[str], None] = print, as_json: bool = False, save: Path | None = None
) -> None:
    """Run the service until it is stopped. If it cannot start, it raises ConfigError and closes everything.

    Args:
        config: The settings.
        say: Prints lines for the user: text, or with ``as_json`` one JSON object.
        as_json: Write for programs.
        save: A RisuAI save to import first; existing chats do not change.
    """
    set_up_logs(config)
    save = save if save is not None else config.from_risuai
    config = config.model_copy(update={"from_risuai": save})
    if config.write_back and save is None and config.from_sillytavern is None:
        raise ConfigError("write_back needs a data folder or a save to write to", code="INVALID_SETTING")
    if config.write_back and save is not None and save.is_dir():
        raise ConfigError(
            f"{save} is a folder, and its chats are only read: leave out --write-back", code="INVALID_SETTING"
        )
    if config.watch and config.characters is None and config.from_sillytavern is None:
        raise ConfigError("watch needs a folder: characters or from_sillytavern", code="INVALID_SETTING")
    _check_certificate(config)
    if config.telemetry_endpoint is not None and not config.telemetry:
        raise ConfigError("telemetry_endpoint needs telemetry = true", code="INVALID_SETTING")
    set_up_telemetry(config)
    may_fork = sys.platform == "linux" and "prometheus_client" not in sys.modules
    with closing(_bind(config)) as listening, _worker_environment(config):
        port = listening.getsockname()[1]
        key = asyncio.run(_prepare(config))
        if save is not None:
            _import(config, save, (lambda _: None) if as_json else say)
        for line in [_welcome_object(config, port, key)] if as_json else _welcome(config, port, key):
            say(line)
        _run(config, listening, may_fork=may_fork)


def _run(config: ServerConfig, listening: socket.socket, *, may_fork: bool) -> None:
    import uvicorn

    from tavernkit.server.app import create_app

    options: dict[str, object] = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": int(config.shutdown_seconds) + 5,
    }
    if config.tls_certificate is not None:
        options |= {"ssl_certfile": str(config.tls_certificate), "ssl_keyfile": _path(config.tls_key)}
    if config.workers == 1:
        server = uvicorn.Server(uvicorn.Config(create_app(config, own_process=True), **options))  # pyright: ignore[reportArgumentType]  # as uvicorn names them
        try:
            with _ending_well():
                server.run(sockets=[listening])
        except SystemExit as end:
            raise _not_started() from end
        return
    settings = uvicorn.Config("tavernkit.server.app:worker_app", factory=True, workers=config.workers, **options)  # pyright: ignore[reportArgumentType]  # as uvicorn names them
    from uvicorn.supervisors import Multiprocess

    with _forking() if may_fork else nullcontext():
        supervisor = Multiprocess(settings, sockets=[listening])
        supervisor.run()
    if any(worker.exitcode == STARTUP_FAILURE for worker in supervisor.processes):
        raise _not_started()


@contextmanager
def _worker_environment(config: ServerConfig) -> Generator[None]:
    """Hand the settings over to worker processes, and folders that they share."""
    if config.workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tavernkit-metrics-") as folder:
        shared = os.environ.get(METRICS_FOLDER, folder)
        given = {CONFIG_VARIABLE: json.dumps(dump_config(config)), METRICS_FOLDER: shared}
        if _has_studio(config):
            given[STUDIO_FOLDER] = folder
        with _environment(given):
            yield


@contextmanager
def _forking() -> Generator[None]:
    """Let uvicorn fork its workers off this process, which has imported everything and made what all of them need.

    Otherwise each worker starts as a new process and does so again. A process with threads cannot be forked safely.
    """
    from uvicorn import _subprocess

    from tavernkit.server.app import warm_up

    warm_up()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        yield
        return
    spawn = _subprocess.spawn
    setattr(_subprocess, "spawn", SimpleNamespace(Process=_Worker))  # noqa: B010  # of another type
    try:
        yield
    finally:
        setattr(_subprocess, "spawn", spawn)  # noqa: B010  # see above
        gc.unfreeze()


class _Worker(ForkProcess):
    """A process that is forked, and does not react to signals as its parent does."""

    def start(self) -> None:
        """Fork; a signal that comes meanwhile waits until the worker can be ended by it."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        """Run the worker, in its own process."""
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        super().run()


def _not_started() -> ConfigError:
    return ConfigError("the server could not start; its log says why", code="NOT_STARTED")


@contextmanager
def _ending_well() -> Generator[None]:
    """Make SIGTERM exit with 0: uvicorn raises it again after a clean shutdown."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _nothing)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Ignore a signal."""


def _path(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _check_certificate(config: ServerConfig) -> None:
    """Raise if the server cannot speak TLS with these files."""
    if config.tls_certificate is None:
        if config.tls_key is not None:
            raise ConfigError("tls_key needs tls_certificate", code="INVALID_SETTING")
        return
    path = config.tls_certificate
    try:
        for path in filter(None, (config.tls_key, config.tls_certificate)):
            path.open("rb").close()
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.tls_certificate, _path(config.tls_key))
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            wrong = (
                "or its key is in another file: set tls_key" if config.tls_key is None else "or the key is another's"
            )
            reason = f"it is not a certificate in PEM format, {wrong} ({error.reason or reason})"
        raise ConfigError(f"the certificate cannot be used: {path}: {reason}", code="INVALID_CERTIFICATE") from error


@contextmanager
def _environment(values: dict[str, str]) -> Generator[None]:
    """Set environment variables for processes started inside the ``with`` block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _bind(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio sends small answers at once only on sockets marked as TCP; others wait 40 ms for more data.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        listening.listen(BACKLOG)  # clients that connect before the workers are ready wait for them
        listening.set_inheritable(True)
    except (OSError, ValueError, TypeError) as error:  # the latter two are raised for invalid names
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else None
        where = f"{config.host}:{config.port}"
        raise ConfigError(f"cannot listen on {where}: {reason or error}", code="CANNOT_LISTEN") from error
    return listening


async def _prepare(config: ServerConfig) -> str | None:
    """Migrate before any worker starts; return the first key if one was created.

    Several workers also find what served folders offer. A single one reads them itself when it starts.
    """
    from tavernkit.server.keys import SCOPES
    from tavernkit.server.service import Service

    service = Service(config)
    try:
        await (service.prepare() if config.workers == 1 else service.start())
        if not await service.needs_first_key():
            return None
        return (await service.keys.create("first key", SCOPES))[1]
    finally:
        await service.stop()


def _import(config: ServerConfig, save: Path, say: Callable[[str], None]) -> None:
    """Import a save before any worker starts."""
    from tavernkit.server.backups import import_save

    result = import_save(config, save)
    imported, warnings = result["imported"], result["warnings"]
    counts = (
        ", ".join(f"{number} {kind}{'s' * (number != 1)}" for kind, number in imported.items())
        if is_mapping(imported)
        else ""
    )
    say(f"imported from {save}: {counts or 'nothing new'}")
    for line in warnings if is_sequence(warnings) else ():
        say(f"  {line}")


def _has_studio(config: ServerConfig) -> bool:
    """Return True if Studio is available: several workers need Unix sockets to reach each other."""
    return config.workers == 1 or hasattr(socket, "AF_UNIX")


def _url(config: ServerConfig, port: int) -> str:
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'http' if config.tls_certificate is None else 'https'}://{host}:{port}"


def _welcome_object(config: ServerConfig, port: int, key: str | None) -> str:
    url = _url(config, port)
    announced: dict[str, object] = {
        "url": url,
        "base_url": f"{url}/v1",
        "docs": f"{url}/docs",
        "upstream": config.default_upstream,
        "workers": config.workers,
        "keys_required": config.keys_required,
        "api_key": key,
        "pid": os.getpid(),
    }
    return json.dumps(announced)


def _welcome(config: ServerConfig, port: int, key: str | None) -> list[str]:
    url = _url(config, port)
    body = json.dumps({"model": "aria", "messages": [{"role": "user", "content": "Hello!"}]})
    shown = key or "$TAVERNKIT_KEY"
    authorization = f' -H "Authorization: Bearer {shown}"' if config.keys_required else ""
    lines = [f"TavernKit serves {url}/v1 (docs: {url}/docs, upstream: {config.default_upstream})"]
    if _has_studio(config):
        lines.append(f"Studio, to see and edit prompts: {url}/")
    if key is not None:
        lines.append(f"API key with every scope, shown only once: {key}")
    lines.append(f"curl {url}/v1/chat/completions -H 'Content-Type: application/json'{authorization} -d '{body}'")
    return lines
