"""The tables, and column types that accept any data from clients and models in every database.

Times are seconds since 1970; lines, metadata and variables are the platforms' own JSON.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Dialect, ForeignKey, Index, LargeBinary, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from tavernkit._values import Json, JsonObject, is_object, is_sequence

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def new_id() -> str:
    """Return a new id of a row."""
    return os.urandom(16).hex()


def clean_text(text: str | None) -> str | None:
    """Return a text as a column stores it."""
    return text if text is None or _UNSTORABLE.search(text) is None else storable(text)


def storable(text: str) -> str:
    """Replace characters that PostgreSQL and UTF-8 cannot store: NUL and lone surrogates."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def storable_json(value: object) -> Any:
    """Make every text of a JSON value storable; numbers that JSON cannot represent become null."""
    if isinstance(value, str):
        return storable(value)
    if is_object(value):
        return {storable(key): storable_json(item) for key, item in value.items()}
    if is_sequence(value):
        return [storable_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class CleanText(TypeDecorator[str]):
    """Text without characters that some databases refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Clean a value before it is stored."""
        return clean_text(value)


def dump_json(value: object) -> str:
    """Write JSON for a column, like ``storable_json()``, but without copying clean values."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except ValueError:  # an invalid JSON number, or a lone surrogate
        return _ENCODER.encode(storable_json(value))
    return _ENCODER.encode(storable_json(value)) if _ESCAPED_NUL in text else text


_ESCAPED_NUL = "\\u0000"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map: ClassVar = {str: CleanText(), JsonObject: JSON(), list[Json]: JSON()}


class Item(Base):
    """A character, book, preset, persona, group or module: its file, and a version that increases with every change."""

    __tablename__ = "items"

    kind: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    platform: Mapped[str]
    version: Mapped[int]
    file: Mapped[bytes] = mapped_column(LargeBinary)
    filename: Mapped[str]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class Chat(Base):
    """A session. ``turn_id`` is the writing turn, until ``lease_until``; ``version`` increases with every change."""

    __tablename__ = "sessions"
    __table_args__ = (
        UniqueConstraint("owner", "external_id"),
        Index("ix_sessions_owner_updated", "owner", "updated_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    external_id: Mapped[str]
    platform: Mapped[str]
    character: Mapped[str | None]
    group: Mapped[str | None] = mapped_column("group_id")
    persona: Mapped[str | None]
    preset: Mapped[str | None]
    books: Mapped[list[Json]]
    details: Mapped[JsonObject]
    """The platform's data of a chat besides its lines: SillyTavern's ``chat_metadata``, RisuAI's chat object."""
    variables: Mapped[JsonObject]
    options: Mapped[JsonObject] = mapped_column(server_default="{}")
    """The service's own options: stable prompts, memory."""
    version: Mapped[int]
    next_position: Mapped[int]
    turn_id: Mapped[str | None]
    lease_until: Mapped[float]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class Line(Base):
    """A message. ``native`` is the platform's own object; ``status`` is ``complete`` or ``partial``."""

    __tablename__ = "messages"
    __table_args__ = (UniqueConstraint("session_id", "position"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"))
    position: Mapped[int]
    turn_id: Mapped[str | None]
    role: Mapped[str]
    content: Mapped[str]
    native: Mapped[JsonObject]
    status: Mapped[str]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class Turn(Base):
    """A request that called a model: ``running``, then ``done``, ``partial`` or ``failed``."""

    __tablename__ = "turns"
    __table_args__ = (
        UniqueConstraint("owner", "idempotency_key"),
        Index("ix_turns_session", "session_id"),
        Index("ix_turns_created", "created_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    session_id: Mapped[str | None] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"))
    idempotency_key: Mapped[str | None]
    fingerprint: Mapped[str]
    kind: Mapped[str]
    status: Mapped[str]
    lease_until: Mapped[float]
    message_id: Mapped[str | None]
    reply_id: Mapped[str | None]
    response: Mapped[JsonObject]
    error: Mapped[str | None]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class GlobalVariables(Base):
    """Variables that all chats of an owner share, by platform."""

    __tablename__ = "global_variables"

    owner: Mapped[str] = mapped_column(primary_key=True)
    platform: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[JsonObject]


class ApiKey(Base):
    """A client's key, as a hash."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    digest: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[Json]]
    rate_limit: Mapped[int | None]
    daily_tokens: Mapped[int | None] = mapped_column(BigInteger)
    daily_cost: Mapped[float | None]
    created_at: Mapped[float]
    revoked_at: Mapped[float | None]


class RateWindow(Base):
    """How many requests a key made in a time window."""

    __tablename__ = "rate_windows"

    key_id: Mapped[str] = mapped_column(primary_key=True)
    window: Mapped[int] = mapped_column("window_start", primary_key=True)
    requests: Mapped[int]


class Usage(Base):
    """An owner's usage on a day (UTC): one row per character, upstream and model.

    Rows with different ``part`` are added up, so that concurrent turns need not wait for the same row.
    """

    __tablename__ = "usage"
    __table_args__ = (Index("ix_usage_day", "day"),)

    owner: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[str] = mapped_column(primary_key=True)
    character: Mapped[str] = mapped_column(primary_key=True)
    upstream: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    requests: Mapped[int] = mapped_column(BigInteger)
    input_tokens: Mapped[int] = mapped_column(BigInteger)
    output_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    predicted_tokens: Mapped[int] = mapped_column(BigInteger)
    """Tokens that the provider should have had in its cache."""
    cost: Mapped[float]


class Summary(Base):
    """The claim on a session's summary: its owner, its end, and the number of failures since the last success."""

    __tablename__ = "summaries"

    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)
    lease_until: Mapped[float]
    failures: Mapped[int]


class Job(Base):
    """A long import: ``running``, then ``done``, ``failed`` or ``interrupted``."""

    __tablename__ = "jobs"
    __table_args__ = (Index("ix_jobs_created", "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    kind: Mapped[str]
    status: Mapped[str]
    total: Mapped[int]
    done: Mapped[int]
    result: Mapped[JsonObject]
    lease_until: Mapped[float]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class UpstreamSecret(Base):
    """The key of a named upstream, encrypted."""

    __tablename__ = "upstream_secrets"

    name: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[str]
    updated_at: Mapped[float]
