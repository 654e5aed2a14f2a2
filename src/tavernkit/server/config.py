"""Settings of the service: defaults, then a TOML file, then the environment, then the command line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    ValidationError,
    field_validator,
)

from tavernkit._values import deep_merge, is_mapping
from tavernkit.cache._profiles import find_profile
from tavernkit.cards import DEFAULT_LIMITS, Limits
from tavernkit.errors import ConfigError
from tavernkit.server import limits

ENV_PREFIX = "TAVERNKIT_SERVER_"
CONFIG_VARIABLE = "TAVERNKIT_SERVER_HANDED_OVER"
"""The environment variable with the settings for worker processes."""
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the folder for the workers' shared counters; prometheus_client reads it when imported."""
STUDIO_FOLDER = "TAVERNKIT_STUDIO_FOLDER"
"""The environment variable with the folder through which workers find the one with Studio's workspaces."""
SCRIPTED = "scripted"
"""The upstream that needs no network: a scripted model."""


Failure = Literal["error", "timeout", "rate_limit", "context_length"]
"""Reasons to try another upstream."""
FAILURES: tuple[Failure, ...] = get_args(Failure)

BUILD_LIMITS = tuple(each.name for each in fields(Limits) if each.name.startswith("max_build_"))
"""Limits of builds that settings can lower."""


def _build_limits(value: dict[str, int]) -> dict[str, int]:
    for name, number in value.items():
        if name not in BUILD_LIMITS:
            raise ValueError(f"there is no limit {name!r} of builds: {', '.join(BUILD_LIMITS)}")
        if number < 1:
            raise ValueError(f"{name} must be a positive whole number")
    return value


BuildLimits = Annotated[dict[str, int], AfterValidator(_build_limits)]


def _known_profile(name: str) -> str:
    try:
        return find_profile(name).name
    except ConfigError as error:
        raise ValueError(str(error)) from error


class RouteConfig(BaseModel):
    """One of several upstreams behind a route."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstream: str
    """The name of the upstream."""
    weight: float = Field(default=1.0, ge=0)
    """Its share of the sessions; with 0 it is used only when others fail."""
    on: tuple[Failure, ...] = FAILURES
    """The failures of others after which it is used."""


class Price(BaseModel):
    """The price of a million tokens of a model, in the currency of the budgets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    """The price of a million tokens of prompts."""
    output: float = Field(ge=0)
    """The price of a million tokens of replies."""
    cached: float | None = Field(default=None, ge=0)
    """The price of a million tokens from the provider's cache; by default that of other input."""


class UpstreamConfig(BaseModel):
    """A named model server: its address, protocol and time limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: Literal["openai", "anthropic", "google", "text", "scripted"] = "openai"
    """``openai`` (or compatible), ``anthropic``, ``google``, ``text`` (text completion) or ``scripted``."""
    base_url: str | None = None
    """The server's address, such as ``https://api.openai.com/v1``."""
    api_prefix: str | None = "/v1"
    """The path before the endpoint, unless ``base_url`` ends with it."""
    api_key: SecretStr | None = None
    """The key for the server; better set in the environment."""
    model: str | None = None
    """The model to use; by default the preset's, or else the upstream's name."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds to wait for the server."""
    max_retries: int = Field(default=limits.MAX_RETRIES, ge=0, le=10)
    """How often a failed request is sent again."""
    route: tuple[RouteConfig, ...] = ()
    """Other upstreams to route to; then nothing else is set here."""
    fields: tuple[str, ...] | None = None
    """The only options that the server accepts, including ``stop``; by default the model's name decides."""
    body: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields to add to every request; they override all others."""
    embedding_model: str | None = None
    """The model for ``/v1/embeddings``, whatever a client names."""
    moderation_model: str | None = None
    """The model for ``/v1/moderations``, whatever a client names."""
    context_length: int | None = Field(default=None, ge=256)
    """Tokens of prompt and reply together; by default from the server or a table of known models."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Prices by model name or pattern (``gpt-5*``); the first match counts."""
    strategy: Literal["reference", "cache"] | None = None
    """How prompts are made to fit, unless the session says so: ``cache`` cuts the history in larger steps."""
    lore: Literal["reference", "freeze"] | None = None
    """Where lore goes, unless the session says so: ``freeze`` keeps it in the history where it fired."""
    volatile: Literal["reference", "tail"] | None = None
    """Where notes and texts that change by themselves go: ``tail`` puts them after the history."""
    cache_profile: Annotated[str, AfterValidator(_known_profile)] | None = None
    """The provider whose cache is predicted: ``openai``, ``anthropic``, ``deepseek``, ``vllm``, …"""
    latency: float = Field(default=0.0, ge=0)
    """Seconds before each answer of a scripted upstream, for load tests."""


class ServerConfig(BaseModel):
    """All settings of the service. Printing it shows no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """The address to listen on; anything but loopback needs API keys."""
    port: int = Field(default=8080, ge=0, le=65535)
    """The port to listen on; 0 takes any free one."""
    data: Path = Path("tavernkit-data")
    """The folder for the database and other files."""
    db: SecretStr | None = None
    """The database, as a URL of SQLAlchemy; by default an SQLite file in ``data``."""
    workers: int = Field(default=1, ge=1, le=64)
    """How many processes serve requests."""
    upstreams: dict[str, UpstreamConfig] = Field(default_factory=lambda: {SCRIPTED: UpstreamConfig(dialect=SCRIPTED)})
    """The model servers by name; by default a scripted one."""
    upstream: str | None = None
    """The upstream that is used by default; the first one if this is not set."""
    characters: Path | None = None
    """A folder of cards (in any format), books and presets to add to the library at startup."""
    from_sillytavern: Path | None = None
    """A SillyTavern data folder (``data/default-user``) to add: characters, books, presets, personas, chats."""
    watch: bool = False
    """Whether changes in these folders are picked up while the server runs."""
    from_risuai: Path | None = None
    """A RisuAI save to import at startup: a backup, a database or its folder."""
    write_back: bool = False
    """Whether sessions are written back to the data folder or save that they came from."""
    example: bool = True
    """Whether the example character is added to an empty database."""
    user_name: str = "User"
    """The user's name if there is no persona."""
    user_is_session: bool = False
    """Whether OpenAI's ``user`` chooses a session if no header does; then each person has one chat."""
    clean_up: bool = True
    """Whether replies in SillyTavern's chats are cleaned up as SillyTavern does."""

    memory_every: int = Field(default=limits.MEMORY_EVERY, ge=4, le=1000)
    """After how many messages a session with memory is summarised again."""
    memory_upstream: str | None = None
    """The upstream that summarises; by default the one that answers."""
    memory_prompt: str | None = None
    """The instruction for summaries; there is a default in English."""

    require_keys: bool | None = None
    """Whether clients need an API key; by default only when the address is not loopback."""
    admin_key: SecretStr | None = None
    """A key with every scope; it is not stored in the database."""
    secret_key: SecretStr | None = None
    """Encrypts secrets in the database. Without it, none are stored."""
    rate_limit: int | None = Field(default=None, ge=1)
    """Requests per minute and key, for keys without their own limit."""
    daily_tokens: int | None = Field(default=None, ge=1)
    """Tokens of prompts and replies per day (UTC) and key, for keys without their own budget."""
    daily_cost: float | None = Field(default=None, gt=0)
    """The same in money, by the upstreams' ``prices``."""
    build_limits: BuildLimits = Field(default_factory=dict)
    """Lower limits for building a prompt: ``max_build_steps`` and others."""
    key_limits: dict[str, BuildLimits] = Field(default_factory=dict)
    """The same for single keys, by name or id; each number replaces the one above."""
    cors_origins: tuple[str, ...] = ()
    """Web pages that may call the service, such as ``https://chat.example``."""
    metrics: bool = True
    """Whether ``/metrics`` is served."""
    telemetry: bool = False
    """Whether upstream calls become OpenTelemetry spans (extra ``otel``)."""
    telemetry_endpoint: str | None = None
    """Where spans are sent (OTLP over HTTP, such as ``http://collector:4318``); needs opentelemetry-exporter-otlp."""
    tls_certificate: Path | None = None
    """A PEM file; with it, the server uses HTTPS."""
    tls_key: Path | None = None
    """The certificate's key, if it is in another file."""
    log_format: Literal["json", "text"] = "json"
    """``json`` or ``text``."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""

    max_models: int = Field(default=limits.MAX_MODELS, ge=1)
    """The most models in OpenAI's list, which has no pages."""
    max_imports: int = Field(default=limits.MAX_IMPORTS, ge=1)
    """The most imports at the same time, across all processes."""
    max_turns: int = Field(default=limits.MAX_TURNS, ge=1)
    """The most turns that a process runs at the same time."""
    max_waiting: int = Field(default=limits.MAX_WAITING, ge=0)
    """The most turns that wait in a process; more get 503."""
    lease_seconds: float = Field(default=limits.LEASE_SECONDS, gt=0)
    """How long a session stays locked after the process serving it dies."""
    busy_seconds: float = Field(default=limits.BUSY_SECONDS, ge=0)
    """How long a request waits for a busy session or a free slot before it is refused."""
    shutdown_seconds: float = Field(default=limits.SHUTDOWN_SECONDS, ge=0)
    """How long running turns may continue when the server stops."""
    turn_days: float = Field(default=limits.TURN_DAYS, ge=0, le=limits.MAX_DAYS)
    """How long the outcome of a request and its idempotency key are kept; 0 for forever."""
    job_days: float = Field(default=limits.JOB_DAYS, ge=0, le=limits.MAX_DAYS)
    """How long reports of imports are kept; 0 for forever."""
    usage_days: float = Field(default=limits.USAGE_DAYS, ge=0, le=limits.MAX_DAYS)
    """How long the usage of keys is kept; 0 for forever."""

    @field_validator("from_sillytavern")
    @classmethod
    def _of_user(cls, value: Path | None) -> Path | None:
        """Return the folder of the only user of an installation."""
        if value is None or not value.is_dir():
            return value
        from tavernkit.silly_tavern import DataFolder

        try:
            return DataFolder(value).path
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @field_validator("upstreams")
    @classmethod
    def _some_upstream(cls, value: dict[str, UpstreamConfig]) -> dict[str, UpstreamConfig]:
        if not value:
            raise ValueError("there must be at least one upstream")
        return value

    @property
    def database_url(self) -> str:
        """The database URL with an asynchronous driver."""
        if self.db is None:
            return f"sqlite+aiosqlite:///{(self.data / 'tavernkit.db').absolute()}"
        url = self.db.get_secret_value()
        scheme, separator, rest = url.partition("://")
        driver = {"postgres": "postgresql+asyncpg", "postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
        return f"{driver.get(scheme, scheme)}{separator}{rest}"

    @property
    def keys_required(self) -> bool:
        """Whether clients need an API key."""
        return not is_loopback(self.host) if self.require_keys is None else self.require_keys

    def limits_of(self, *names: str) -> Limits:
        """Return the limits of builds for a key, by its names; never higher than the defaults."""
        chosen = dict(self.build_limits)
        for name in names:
            chosen |= self.key_limits.get(name, {})
        lower = {name: min(number, getattr(DEFAULT_LIMITS, name)) for name, number in chosen.items()}
        return replace(DEFAULT_LIMITS, **lower) if lower else DEFAULT_LIMITS

    @property
    def default_upstream(self) -> str:
        """The default upstream."""
        return self.upstream or next(iter(self.upstreams))


def load_config(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> ServerConfig:
    """Read the settings from a file, the environment and ``overrides``; the last one that has a setting wins.

    Args:
        path: A TOML file; by default the one that ``TAVERNKIT_SERVER_CONFIG`` names, or none.
        environment: The variables to read instead of those of the process.
        overrides: Settings by name, as options of the command line give them.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown or wrong.
    """
    environment = os.environ if environment is None else environment
    path = path or environment.get(f"{ENV_PREFIX}CONFIG")
    values: Mapping[str, object] = _from_file(Path(path)) if path else {}
    values = deep_merge(values, _from_environment(environment))
    values = deep_merge(values, overrides or {})
    try:
        config = ServerConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            near = get_close_matches(str(first["loc"][-1]), _SETTINGS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"the server has no setting {where!r}{hint}", code="INVALID_SETTING") from None
        raise ConfigError(f"the setting {where!r} of the server: {first['msg']}", code="INVALID_SETTING") from None
    for name in (config.default_upstream, config.memory_upstream):
        if name is not None and name not in config.upstreams:
            known = ", ".join(config.upstreams)
            raise ConfigError(f"there is no upstream {name!r}; there are {known}", code="NO_UPSTREAM")
    return config


def parse_upstream(text: str) -> tuple[str, dict[str, object]]:
    """Read ``--upstream``: ``scripted``, ``provider:model``, ``https://host/v1#model`` or ``dialect=https://…#model``.

    >>> parse_upstream("anthropic=https://api.anthropic.com#claude-opus")
    ('anthropic', {'dialect': 'anthropic', 'base_url': 'https://api.anthropic.com', 'model': 'claude-opus'})

    Raises:
        ConfigError: The provider is unknown, its key is missing, or the service does not speak its protocol.
    """
    if text == SCRIPTED:
        return SCRIPTED, {"dialect": SCRIPTED}
    if "://" not in text:
        return _upstream_of_provider(text)
    dialect, separator, address = text.partition("=")
    if not separator or dialect.startswith("http"):
        dialect, address = "openai", text
    address, _, model = address.partition("#")
    found: dict[str, object] = {"dialect": dialect, "base_url": address}
    if model:
        found["model"] = model
    return dialect, found


def _upstream_of_provider(text: str) -> tuple[str, dict[str, object]]:
    """Read ``provider:model``; the key comes from the provider's usual environment variable."""
    from tavernkit.models._factory import find_provider
    from tavernkit.server.upstreams.upstream import MODELS

    name, model = text.partition(":")[::2]
    provider = find_provider(text)
    dialect = next((each for each, made in MODELS.items() if made is provider.make), None)
    if dialect is None or provider.base_url is None:
        raise ConfigError(f"the service cannot use {text!r}: pass dialect=https://host/v1#model", code="NO_UPSTREAM")
    key = next((value for each in provider.keys if (value := os.environ.get(each))), None)
    if key is None and not provider.local:
        raise ConfigError(f"there is no API key for {text!r}: set {provider.keys[0]}", code="API_KEY_REQUIRED")
    found: dict[str, object] = {"dialect": dialect, "base_url": provider.base_url, "api_prefix": provider.api_prefix}
    return name, found | {"model": model or None, "api_key": key}


def is_loopback(host: str) -> bool:
    """Return True if an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _from_file(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}", code="INVALID_SETTING") from error


_STRUCTURED = ("upstreams", "cors_origins", "build_limits", "key_limits")
_SETTINGS = [name for kind in (ServerConfig, UpstreamConfig, RouteConfig, Price) for name in kind.model_fields]
_PLAIN = tuple(name for name in ServerConfig.model_fields if name not in _STRUCTURED)


def _from_environment(environment: Mapping[str, str]) -> Mapping[str, object]:
    """Read ``TAVERNKIT_SERVER_PORT``, …; ``TAVERNKIT_SERVER_UPSTREAM_<NAME>_API_KEY`` is the key of an upstream."""
    found: dict[str, object] = {
        name: environment[key] for name in _PLAIN if (key := f"{ENV_PREFIX}{name.upper()}") in environment
    }
    if origins := environment.get(f"{ENV_PREFIX}CORS_ORIGINS"):
        found["cors_origins"] = tuple(each.strip() for each in origins.split(",") if each.strip())
    upstreams: dict[str, object] = {}
    for key, value in environment.items():
        name = key.removeprefix(f"{ENV_PREFIX}UPSTREAM_").removesuffix("_API_KEY")
        if key == f"{ENV_PREFIX}UPSTREAM_{name}_API_KEY" and name:
            upstreams[name.lower()] = {"api_key": value}
    return {**found, "upstreams": upstreams} if upstreams else found


def dump_config(config: ServerConfig) -> dict[str, object]:
    """Return the settings as plain values, including secrets, for worker processes; never log them."""
    plain = _plain(config.model_dump())
    assert is_mapping(plain)
    return dict(plain)


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if is_mapping(value):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # tuples of text only
