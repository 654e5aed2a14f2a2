from __future__ import annotations

from tests.conformance.adapters.risu_ai.trigger_calls import run

__all__ = ["run"]
