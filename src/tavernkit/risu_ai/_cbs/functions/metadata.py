"""What RisuAI says about itself and its models."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit._text.js_values import js_lower
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.functions.settings import maxcontext, required
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._models import ModelInfo, model_info

VERSION = "2026.1.90"
"""The version of RisuAI that is reproduced."""

functions = FunctionGroup("metadata")


def _model(call: CBSCall) -> ModelInfo:
    settings = call.context.settings
    return model_info(required(settings.model, "the model"), settings.custom_models)


def _language(call: CBSCall) -> str:
    return required(call.context.settings.language, "the language")


def _browser_language(call: CBSCall) -> str:
    return call.context.device.locale


def _is_platform(name: str) -> Callable[[CBSCall], str]:
    return lambda call: "1" if call.context.device.platform == name else "0"


def _version(_: CBSCall) -> str:
    return VERSION


def _major_version(_: CBSCall) -> str:
    return VERSION.partition(".")[0]


_ANSWERS: dict[str, Callable[[CBSCall], str]] = {
    "mobile": lambda _: "0",
    "local": _is_platform("local"),
    "node": _is_platform("node"),
    "version": _version,
    "majorversion": _major_version,
    "majorver": _major_version,
    "major": _major_version,
    "language": _language,
    "locale": _language,
    "lang": _language,
    "browserlanguage": _browser_language,
    "browserlocale": _browser_language,
    "browserlang": _browser_language,
    "modelshortname": lambda call: _model(call).short_name,
    "modelname": lambda call: _model(call).name,
    "modelinternalid": lambda call: _model(call).internal_id,
    "modelformat": lambda call: str(_model(call).format),
    "modelprovider": lambda call: str(_model(call).provider),
    "modeltokenizer": lambda call: str(_model(call).tokenizer),
    "imateapot": lambda _: "🫖",
    "risutype": lambda call: call.context.device.platform,
    "maxcontext": maxcontext,
}


@functions("metadata", args=("key",))
def metadata(call: CBSCall) -> str:
    """A fact about the program, the device or the model; an unknown key gives a text that says so."""
    key = call.text(0)
    answer = _ANSWERS.get(js_lower(key))
    return f"Error: {key} is not a valid metadata key." if answer is None else answer(call)
