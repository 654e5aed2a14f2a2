"""core/dialects_anthropic: as dialects_openai, with another dialect."""

from tests.conformance.adapters.core.dialects_openai import run as run
