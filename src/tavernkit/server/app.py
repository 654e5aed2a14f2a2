"""The application."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from tavernkit import Character, __version__
from tavernkit import silly_tavern as st
from tavernkit.models import Model
from tavernkit.server.api import (
    admin,
    anthropic,
    builds,
    chat_settings,
    completions,
    docs,
    library,
    models,
    openai,
    responses,
    sessions,
)
from tavernkit.server.api.dependencies import SafeJSONResponse, bearer
from tavernkit.server.api.middleware import FastPath, FastRoute, RequestMiddleware, error_response
from tavernkit.server.api.openai_types import ChatCompletionRequest
from tavernkit.server.api.session_types import MessageIn
from tavernkit.server.config import CONFIG_VARIABLE, STUDIO_FOLDER, ServerConfig, load_config
from tavernkit.server.errors import ServiceError
from tavernkit.server.logs import flush_telemetry, set_up_logs, set_up_telemetry
from tavernkit.server.service import Service
from tavernkit.studio import _api as studio_api

if TYPE_CHECKING:
    from tavernkit.server.studio_forwarding import StudioKeeper

GARBAGE_THRESHOLDS = (20_000, 20, 50)
"""A turn makes thousands of objects but hardly any cycles: Python's default collection took a tenth of its time."""

FAST_ROUTES = (
    FastRoute("/v1/chat/completions", ChatCompletionRequest, openai.chat_completions),
    FastRoute("/api/sessions/{session_id}/messages", MessageIn, sessions.say),
)

HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}

DESCRIPTION = "Any OpenAI client talks to your characters; everything else is under /api."


def create_app(
    config: ServerConfig | None = None,
    *,
    upstream_models: Mapping[str, Model] | None = None,
    own_process: bool = False,
) -> FastAPI:
    """Make the application, for a server such as uvicorn or for another application to mount.

    >>> app = create_app(ServerConfig(data=Path("data")))           # doctest: +SKIP

    Args:
        config: The settings; by default those of the environment.
        upstream_models: Models that replace upstreams by name, for tests.
        own_process: The process serves nothing else; garbage collection is tuned for that.
    """
    settings = config or load_config()
    service = Service(settings, models=upstream_models)
    keeper = _studio_keeper(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        try:
            await service.start()
            if own_process:
                await asyncio.to_thread(warm_up)
                # Requests need not wait for this: the server is ready without.
                loading = asyncio.get_running_loop().run_in_executor(None, service.upstreams.load)
                loading.add_done_callback(lambda done: done.cancelled() or done.exception())
            yield
        finally:
            if app.state.studios is not None:
                await app.state.studios.stop()
            if keeper is not None:
                await keeper.stop()
            await service.stop()
            if own_process:
                await flush_telemetry(settings)

    app = FastAPI(title="TavernKit", version=__version__, description=DESCRIPTION, lifespan=lifespan, openapi_url=None)
    app.state.service = service
    app.state.studios, app.state.find_studio = None, _find_studio
    _add_health(app, service)
    _add_routes(app, openai, completions, anthropic, responses, models, sessions)  # they are tried in order
    for router in (studio_api.router, studio_api.talk_router):  # before the library, whose paths would match theirs
        app.include_router(router, dependencies=[Security(bearer)])
    _add_routes(app, builds, admin, chat_settings)
    for router in (studio_api.page_router, chat_settings.variables, chat_settings.scripts, library.imports):
        app.router.routes += router.routes
    _add_routes(app, library, docs)
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RecursionError, _too_deep)
    app.add_middleware(FastPath, service=service, routes=FAST_ROUTES)
    app.add_middleware(RequestMiddleware, config=settings, metrics=service.metrics)
    if settings.cors_origins:  # outside the middleware that refuses requests: pages may read why
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    if keeper is not None:
        from tavernkit.server.studio_forwarding import StudioForwarding

        app.add_middleware(StudioForwarding, keeper=keeper)
    return app


def _add_routes(app: FastAPI, *modules: ModuleType) -> None:
    """Add routes as they are: ``include_router()`` would make each of them again with the first request."""
    for module in modules:
        app.router.routes += module.router.routes


def _studio_keeper(config: ServerConfig) -> StudioKeeper | None:
    """Return the forwarder of Studio's requests to one of several processes, if they can reach each other."""
    folder = os.environ.get(STUDIO_FOLDER)
    if config.workers == 1 or folder is None:
        return None
    from tavernkit.server.studio_forwarding import StudioKeeper

    return StudioKeeper(Path(folder))


async def _find_studio(request: Request) -> object:
    """Return the Studio of a client; Studio's modules are loaded with the first one."""
    state = request.app.state
    if state.studios is None:
        from tavernkit.server.studio_workspaces import Studios

        state.studios = Studios(state.service)
    return await state.studios.find(request)


def worker_app() -> FastAPI:
    """The application of a worker process."""
    handed_over = os.environ.get(CONFIG_VARIABLE)
    config = ServerConfig.model_validate(json.loads(handed_over)) if handed_over else load_config()
    set_up_logs(config)
    set_up_telemetry(config)
    return create_app(config, own_process=True)


def warm_up() -> None:
    """Load what the first turn needs. Garbage collection need not check these objects again: hardly any is garbage."""
    # A prompt loads the tokenizer of most presets; a word that is not a single token, its merge table too.
    st.Builder(character=Character(name="Beldunhal"), warn=None).build(message="Hello")
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/health", tags=["health"])
    async def health() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]  # a route
        """Return 200 if the process is running."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", tags=["health"])
    async def ready() -> Response:  # pyright: ignore[reportUnusedFunction]  # a route
        """Return 200 if the service is ready: the database answers."""
        try:
            await service.database.ping()
        except Exception as error:  # noqa: BLE001  # whatever it is, the server is not ready
            return SafeJSONResponse({"status": "unavailable", "reason": type(error).__name__}, status_code=503)
        return SafeJSONResponse({"status": "ready"})

    async def headers(request: Request) -> Response:
        """Answer monitors that ask for headers only."""
        return await ready() if request.url.path.endswith("/ready") else Response()

    for path in ("/health", "/ready"):
        app.router.add_route(path, headers, methods=["HEAD"], include_in_schema=False)
    if service.config.metrics:

        @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
        async def metrics() -> Response:  # pyright: ignore[reportUnusedFunction]  # a route
            """Metrics of all workers of this machine in Prometheus's format."""
            return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return error_response(request.url.path, error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body" and first["type"] != "json_invalid")
    said = f"{where}: {first['msg']}" if where else f"the body: {first['msg']}"
    status = 400 if request.url.path.startswith("/v1/") else 422
    refusal = ServiceError(status, said, code="invalid_request", param=where or None)
    return await _service_error(request, refusal)


async def _too_deep(request: Request, error: Exception) -> Response:
    """Answer errors of data from clients that is nested too deeply."""
    del error
    return await _service_error(request, ServiceError(400, "the request nests too deeply", code="nested_too_deeply"))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(
        error.__cause__, RecursionError
    ):  # the reader of JSON gave up, at a depth that Python's version decides
        return await _too_deep(request, error)
    code = HTTP_CODES.get(error.status_code, "http_error")
    answer = await _service_error(request, ServiceError(error.status_code, str(error.detail), code=code))
    answer.headers.update(error.headers or {})
    return answer
