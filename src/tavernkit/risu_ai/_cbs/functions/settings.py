"""The user's settings: prompts, model, toggles; and the message that the text belongs to."""

from __future__ import annotations

from tavernkit._text.js_values import number_to_string
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.functions.identity import selected
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure

functions = FunctionGroup("settings")


def required(value: str | None, what: str) -> str:
    """Return a setting; fails if it is missing."""
    if value is None:
        raise FunctionFailure(f"{what} is missing")
    return value


@functions("mainprompt", "systemprompt", "main_prompt")
def mainprompt(call: CBSCall) -> str:
    """The main prompt, expanded."""
    return call.expand(call.context.settings.main_prompt, "the main prompt")


@functions("jb", "jailbreak")
def jb(call: CBSCall) -> str:
    """The jailbreak prompt, expanded."""
    return call.expand(call.context.settings.jailbreak, "the jailbreak prompt")


@functions("globalnote", "systemnote", "ujb")
def globalnote(call: CBSCall) -> str:
    """The global note, expanded."""
    return call.expand(call.context.settings.global_note, "the global note")


@functions("jbtoggled")
def jbtoggled(call: CBSCall) -> str:
    """``1`` if the jailbreak is switched on, else ``0``."""
    return "1" if call.context.settings.jailbreak_toggle else "0"


@functions("model")
def model(call: CBSCall) -> str:
    """The id of the model."""
    return required(call.context.settings.model, "the model")


@functions("axmodel")
def axmodel(call: CBSCall) -> str:
    """The id of the auxiliary model."""
    return required(call.context.settings.sub_model, "the auxiliary model")


@functions("prefillsupported", "prefill_supported", "prefill")
def prefillsupported(call: CBSCall) -> str:
    """``1`` if the model supports prefill, else ``0``."""
    return "1" if required(call.context.settings.model, "the model").startswith("claude") else "0"


@functions("maxcontext")
def maxcontext(call: CBSCall) -> str:
    """The size of the context in tokens."""
    size = call.context.settings.max_context
    if size is None:
        raise FunctionFailure("the context size is missing")
    return number_to_string(size)


@functions("trigger_id", "triggerid")
def trigger_id(call: CBSCall) -> str:
    """The id of the manual trigger that is running, or ``null``."""
    running = call.context.trigger_id
    return "null" if running is None else running


@functions("screenwidth", "screen_width")
def screenwidth(call: CBSCall) -> str:
    """The width of the window in pixels."""
    return str(call.context.device.screen_width)


@functions("screenheight", "screen_height")
def screenheight(call: CBSCall) -> str:
    """The height of the window in pixels."""
    return str(call.context.device.screen_height)


@functions("role")
def role(call: CBSCall) -> str:
    """The role of the message that the text belongs to."""
    context = call.context
    if context.chat_role:
        return context.chat_role
    if context.first_message:
        return "char"
    if context.chat_index != -1:
        selected(call)
        if not 0 <= context.chat_index < len(context.chat.messages):
            raise FunctionFailure(f"there is no message {context.chat_index}")
        return context.chat.messages[context.chat_index].role
    return context.role or "null"


@functions("isfirstmsg", "isfirstmessage")
def isfirstmsg(call: CBSCall) -> str:
    """``1`` if the text is the greeting, else ``0``."""
    return "1" if call.context.first_message else "0"


@functions("chatindex", "chat_index")
def chatindex(call: CBSCall) -> str:
    """The index of the message being rendered, -1 for none."""
    return str(call.context.chat_index)


@functions("firstmsgindex", "firstmessageindex", "first_msg_index")
def firstmsgindex(call: CBSCall) -> str:
    """Which greeting the chat uses: -1 for the first message, else the index of an alternate one."""
    selected(call)
    index = call.context.chat.greeting_index
    if index is None:
        raise FunctionFailure("the chat does not say which greeting it uses")
    return number_to_string(index)
