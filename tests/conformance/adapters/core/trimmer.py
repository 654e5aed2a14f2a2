"""core/trimmer: blocks and options in, the trim's result or error out."""

from __future__ import annotations

from tavernkit.budget._trimmer import apply, trim
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt._block import Block
from tests.conformance.runner import Case


class Characters:
    """The vectors' estimator: one token a code point."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return len(text)


def run(case: Case) -> object:
    blocks = [Block(**fields) for fields in case.input["blocks"]]
    try:
        result = trim(blocks, token_estimator=Characters(), **case.input["options"])
    except ConfigError as error:
        return {"error": {"class": "ConfigError", "code": error.code}}
    except MaxTokensExceededError as error:
        return {
            "error": {
                "class": "MaxTokensExceededError",
                "step": error.step,
                "estimated_tokens": error.estimated_tokens,
                "max_tokens": error.max_tokens,
                "reserve_tokens": error.reserve_tokens,
                "limit_tokens": error.limit_tokens,
            }
        }
    return {
        "result": {
            "kept": [block.id for block in result.kept],
            "evicted": [block.id for block in result.evicted],
            "report": result.report.to_dict(),
            "applied_enabled": {block.id: block.enabled for block in apply(blocks, result)},
        }
    }
