"""Whatever is sent that fits the OpenAPI description (or nearly), no answer is a server error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from tavernkit.server import ServerConfig, create_app
from tests.server.conftest import on_loopback
from tests.server.databases import database_url

EXAMPLES = int(os.environ.get("TAVERNKIT_SCHEMA_EXAMPLES", "3"))
"""Requests tried for each operation; few in every run of the tests, many in ``make test-postgres``."""


described = create_app(ServerConfig.model_validate({"db": "postgresql://never-connected/to"}))
schema = schemathesis.openapi.from_dict(described.openapi())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server."""
    folder: Path = tmp_path_factory.mktemp("schema")
    with on_loopback(create_app(ServerConfig.model_validate({"data": folder, **database_url()}))) as address:
        yield address


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_no_request_makes_the_server_fail(case: schemathesis.Case, url: str) -> None:
    case.call_and_validate(base_url=url, checks=[not_a_server_error])
