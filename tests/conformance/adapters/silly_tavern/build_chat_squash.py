"""Chat-completion builds that squash system messages around empty prompts."""

from tests.conformance.adapters.silly_tavern.build_chat import run

__all__ = ["run"]
