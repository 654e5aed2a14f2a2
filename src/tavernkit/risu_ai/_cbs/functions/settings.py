"""The user's settings (prompts, model, toggles), the message of the text, RisuAI's facts about itself and models."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit._text.js_values import js_lower, number_to_string
from tavernkit.risu_ai._cbs.functions.chat import message_at, selected
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup
from tavernkit.risu_ai._models import ModelInfo, model_info

setting_functions = FunctionGroup("settings")


def required(value: str | None, what: str) -> str:
    """Return a setting; fails if it is missing."""
    if value is None:
        raise FunctionFailure(f"{what} is missing")
    return value


@setting_functions("mainprompt", "systemprompt", "main_prompt")
def mainprompt(call: CBSCall) -> str:
    """The main prompt, expanded."""
    return call.expand(call.context.settings.main_prompt, "the main prompt")


@setting_functions("jb", "jailbreak")
def jb(call: CBSCall) -> str:
    """The jailbreak prompt, expanded."""
    return call.expand(call.context.settings.jailbreak, "the jailbreak prompt")


@setting_functions("globalnote", "systemnote", "ujb")
def globalnote(call: CBSCall) -> str:
    """The global note, expanded."""
    return call.expand(call.context.settings.global_note, "the global note")


@setting_functions("jbtoggled")
def jbtoggled(call: CBSCall) -> str:
    """``1`` if the jailbreak is switched on, else ``0``."""
    return "1" if call.context.settings.jailbreak_toggle else "0"


@setting_functions("model")
def model(call: CBSCall) -> str:
    """The id of the model."""
    return required(call.context.settings.model, "the model")


@setting_functions("axmodel")
def axmodel(call: CBSCall) -> str:
    """The id of the auxiliary model."""
    return required(call.context.settings.sub_model, "the auxiliary model")


@setting_functions("prefillsupported", "prefill_supported", "prefill")
def prefillsupported(call: CBSCall) -> str:
    """``1`` if the model supports prefill, else ``0``; RisuAI asks only whether its name begins with ``claude``."""
    return "1" if required(call.context.settings.model, "the model").startswith("claude") else "0"


@setting_functions("maxcontext")
def maxcontext(call: CBSCall) -> str:
    """The size of the context in tokens."""
    size = call.context.settings.max_context
    if size is None:
        raise FunctionFailure("the context size is missing")
    return number_to_string(size)


@setting_functions("trigger_id", "triggerid")
def trigger_id(call: CBSCall) -> str:
    """The id of the manual trigger that is running, or ``null``."""
    running = call.context.trigger_id
    return "null" if running is None else running


@setting_functions("screenwidth", "screen_width")
def screenwidth(call: CBSCall) -> str:
    """The width of the window in pixels."""
    return str(call.context.device.screen_width)


@setting_functions("screenheight", "screen_height")
def screenheight(call: CBSCall) -> str:
    """The height of the window in pixels."""
    return str(call.context.device.screen_height)


@setting_functions("role")
def role(call: CBSCall) -> str:
    """The role of the message that the text belongs to."""
    context = call.context
    if context.chat_role:
        return context.chat_role
    if context.first_message:
        return "char"
    if context.chat_index != -1:
        return message_at(call, context.chat_index).role
    return context.role or "null"


@setting_functions("isfirstmsg", "isfirstmessage")
def isfirstmsg(call: CBSCall) -> str:
    """``1`` if the text is the greeting, else ``0``."""
    return "1" if call.context.first_message else "0"


@setting_functions("chatindex", "chat_index")
def chatindex(call: CBSCall) -> str:
    """The index of the message being rendered, -1 for none."""
    return str(call.context.chat_index)


@setting_functions("firstmsgindex", "firstmessageindex", "first_msg_index")
def firstmsgindex(call: CBSCall) -> str:
    """Which greeting the chat uses: -1 for the first message, else the index of an alternate one."""
    selected(call)
    index = call.context.chat.greeting_index
    if index is None:
        raise FunctionFailure("the chat does not say which greeting it uses")
    return number_to_string(index)


VERSION = "2026.1.90"
"""The version of RisuAI that is reproduced."""

metadata_functions = FunctionGroup("metadata")


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
    "mobile": lambda _: "0",  # hard-wired in RisuAI
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


@metadata_functions("metadata", args=("key",))
def metadata(call: CBSCall) -> str:
    """A fact about the program, the device or the model; an unknown key gives a text that says so."""
    key = call.text(0)
    answer = _ANSWERS.get(js_lower(key))
    return f"Error: {key} is not a valid metadata key." if answer is None else answer(call)
