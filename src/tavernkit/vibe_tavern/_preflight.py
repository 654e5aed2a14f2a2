"""Hard rules about requests, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import is_mapping
from tavernkit.vibe_tavern._capabilities import Capabilities
from tavernkit.vibe_tavern.errors import PreflightError

JSON_OBJECT = "json_object"
JSON_SCHEMA = "json_schema"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class _Facts:
    capabilities: Capabilities
    stream: bool
    tools: bool
    format: str | None


_RULES: tuple[tuple[str, str, Callable[[_Facts], bool]], ...] = (
    (
        "TOOLS_WITH_RESPONSE_FORMAT",
        "tools and response_format cannot be in one request",
        lambda facts: facts.tools and facts.format is not None,
    ),
    (
        "STREAM_WITH_TOOLS_OR_FORMAT",
        "only plain chat is streamed: send tools and response_format without stream",
        lambda facts: facts.stream and (facts.tools or facts.format is not None),
    ),
    (
        "TOOLS_UNSUPPORTED",
        "{model} of {provider} does not take tools",
        lambda facts: facts.tools and not facts.capabilities.supports_tools,
    ),
    (
        "STREAMING_UNSUPPORTED",
        "{model} of {provider} does not stream",
        lambda facts: facts.stream and not facts.capabilities.supports_streaming,
    ),
    (
        "JSON_OBJECT_UNSUPPORTED",
        "{model} of {provider} does not take response_format json_object",
        lambda facts: facts.format == JSON_OBJECT and not facts.capabilities.supports_response_format_json_object,
    ),
    (
        "JSON_SCHEMA_UNSUPPORTED",
        "{model} of {provider} does not take response_format json_schema",
        lambda facts: facts.format == JSON_SCHEMA and not facts.capabilities.supports_response_format_json_schema,
    ),
    (
        "RESPONSE_FORMAT_UNSUPPORTED",
        "{model} of {provider} does not take a response_format",
        lambda facts: (
            facts.format == OTHER
            and not facts.capabilities.supports_response_format_json_object
            and not facts.capabilities.supports_response_format_json_schema
        ),
    ),
)


def validate_request(
    capabilities: Capabilities, *, stream: bool = False, tools: bool = False, response_format: object = None
) -> None:
    """Raise ``PreflightError`` with the code of the first rule that the request breaks."""
    facts = _Facts(capabilities, stream, tools, response_format_kind(response_format))
    for code, message, broken in _RULES:
        if broken(facts):
            raise PreflightError(message.format(model=capabilities.model, provider=capabilities.provider), code=code)


def response_format_kind(value: object) -> str | None:
    """Return the kind of a ``response_format``: ``json_object``, ``json_schema``, ``other``, or None."""
    if value is None or value is False:
        return None
    if is_mapping(value):
        kind = value.get("type")
        if isinstance(kind, str) and trim_blanks(kind) in (JSON_OBJECT, JSON_SCHEMA):
            return trim_blanks(kind)
    return OTHER
