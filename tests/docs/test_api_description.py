"""The API description says what every field and parameter is for, except those of Studio's own page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tavernkit.server import ServerConfig, create_app
from tavernkit.server.api.docs import FIELDS, PARAMETERS, describe
from tavernkit.studio import _api_types as studio

NOT_OURS = {"HTTPValidationError", "ValidationError"}  # FastAPI's
OF_STUDIO = {name for name, value in vars(studio).items() if isinstance(value, type)}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config = ServerConfig.model_validate({"data": tmp_path_factory.mktemp("data")})
    return describe(create_app(config).openapi())


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, model in schema["components"]["schemas"].items():
        name = path.rpartition("__")[2]
        if name not in NOT_OURS and "studio" not in path and path not in OF_STUDIO:
            yield from ((name, field, value) for field, value in model.get("properties", {}).items())


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    assert not [f"{name}.{field}" for name, field, value in fields(schema) if not value.get("description")]


def test_every_parameter_is_described(schema: dict[str, Any]) -> None:
    operations = {path: value for path, value in schema["paths"].items() if not path.startswith("/api/studio")}
    found = [
        (path, each) for path, of in operations.items() for way in of.values() for each in way.get("parameters", ())
    ]
    assert len(found) > 50
    assert not [(path, each["name"]) for path, each in found if not each.get("description")]


def test_nothing_is_described_that_is_not_there(schema: dict[str, Any]) -> None:
    known = {each for name, field, _ in fields(schema) for each in (field, f"{name}.{field}")}
    assert set(FIELDS) <= known
    operations = (way for of in schema["paths"].values() for way in of.values())
    assert set(PARAMETERS) <= {each["name"] for way in operations for each in way.get("parameters", ())}
