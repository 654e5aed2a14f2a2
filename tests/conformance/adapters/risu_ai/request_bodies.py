"""The HTTP request of a send."""

from __future__ import annotations

from tavernkit.errors import PipelineError
from tavernkit.risu_ai._builder import Builder
from tavernkit.risu_ai.errors import RequestFormatError
from tests.conformance.adapters.risu_ai.build import MODELS, inputs, thrown
from tests.conformance.runner import Case

KEYS = {
    **dict.fromkeys(("openai", "anthropic", "google", "mistral", "cohere", "openrouter", "proxy"), "KEY"),
    "vertex": "TOKEN",
    "vertex_project": "PROJECT",
}
HEADERS = {"authorization", "x-api-key", "anthropic-version", "anthropic-beta", "x-title", "http-referer"}


def run(case: Case) -> object:
    strict = "exception" in case.expected
    try:
        plan = Builder().build(**inputs(case.input, strict=strict), memory=MODELS)
        request = plan.reference_request(keys=KEYS, strict=strict, warn=lambda _: None)
    except (PipelineError, RequestFormatError) as error:
        return {"exception": thrown(error)}
    headers = {name.lower(): value for name, value in request.headers.items() if name.lower() in HEADERS}
    return {"request": {"url": request.url, "headers": headers, "body": request.body}}
