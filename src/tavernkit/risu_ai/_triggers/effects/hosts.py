"""Effects that need an application: dialogs, models, pictures, commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, to_string
from tavernkit._values import Json, JsonObject
from tavernkit.risu_ai._chat.prompt_message import parse_chat_ml
from tavernkit.risu_ai._triggers.commands import run_line
from tavernkit.risu_ai._triggers.limits import RunAbortedError
from tavernkit.risu_ai._triggers.program import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()

LIST_MARK = "§"
IMAGE_FAILED = "Error: Image generation failed"


def raw_name(effect: Effect) -> str:
    """Return the variable that a V1 effect writes; its name is not expanded, and a missing one is a word."""
    return to_string(effect.fields.get("inputVar", UNDEFINED))


@effects.effect("showAlert", low_level=True)
def show_alert_v1(run: Run, effect: Effect) -> None:
    """Show a text, ask for one, or let the user choose."""
    if run.display_mode:
        raise RunAbortedError
    world, text = run.world, run.cbs(effect.fields.get("value"))
    match effect.fields.get("alertType"):
        case "normal":
            world.show(text)
        case "error":
            world.show(text, "error")
        case "input":
            answer = world.ask(text)
            run.set(run.cbs(effect.fields.get("inputVar")), answer)
        case "select":
            chosen = world.select(text.split(LIST_MARK))
            run.set(run.cbs(effect.fields.get("inputVar")), chosen)
        case _:
            pass


@effects.effect("v2ShowAlert")
def show_alert(run: Run, effect: Effect) -> None:
    """Show a text."""
    if run.display_mode:
        raise RunAbortedError
    run.world.show(run.value(effect, "value"))


@effects.effect("v2GetAlertInput")
def ask_user(run: Run, effect: Effect) -> None:
    """Ask for a text."""
    if run.display_mode:
        raise RunAbortedError
    run.output(effect, run.world.ask(run.value(effect, "display")))


@effects.effect("v2GetAlertSelect")
def let_choose(run: Run, effect: Effect) -> None:
    """Let the user choose."""
    if run.display_mode:
        raise RunAbortedError
    title, options = run.value(effect, "display"), run.value(effect, "value")
    run.output(effect, run.world.select(options.split("|"), title))  # V1 splits at another mark


def _prompt(run: Run, text: str) -> list[JsonObject]:
    """Return the messages of a text: ChatML, or one message of the user.

    Only ChatML is expanded again, and only there are thoughts cut out.
    """
    messages = parse_chat_ml(text, run.world.cbs)
    if messages is None:
        return [{"role": "user", "content": text}]
    found: list[JsonObject] = []
    for each in messages:
        thoughts: list[Json] = [*each.thoughts]
        found.append({"role": each.role, "content": each.content, "thoughts": thoughts})
    return found


@effects.effect("runLLM", low_level=True)
def run_model_v1(run: Run, effect: Effect) -> None:
    """Ask the model and store its answer, or why there is none."""
    reply = run.world.ask_model(_prompt(run, run.cbs(effect.fields.get("value"))), "model")
    run.set(raw_name(effect), reply.text if reply.kind == "success" else f"Error: {reply.text}")


@effects.effect("v2RunLLM", low_level=True)
def run_model(run: Run, effect: Effect) -> None:
    """Ask a model and store its answer, or ``null``."""
    messages = _prompt(run, run.value(effect, "value"))
    reply = run.world.ask_model(messages, to_string(effect.fields.get("model", "model")))
    run.output(effect, reply.text if reply.kind == "success" else "null")


@effects.effect("checkSimilarity", low_level=True)
def check_similarity_v1(run: Run, effect: Effect) -> None:
    """Rank texts by how close they are to another one."""
    texts, query = run.cbs(effect.fields.get("value")), run.cbs(effect.fields.get("source"))
    found = run.world.similarity(query, texts.split(LIST_MARK))
    run.set(raw_name(effect), LIST_MARK.join(found))


@effects.effect("v2CheckSimilarity", low_level=True)
def check_similarity(run: Run, effect: Effect) -> None:
    """Rank texts by how close they are to another one."""
    texts, query = run.value(effect, "value"), run.value(effect, "source")
    run.output(effect, LIST_MARK.join(run.world.similarity(query, texts.split(LIST_MARK))))


@effects.effect("runImgGen", low_level=True)
def make_image_v1(run: Run, effect: Effect) -> None:
    """Make a picture and store the tag that shows it."""
    negative, prompt = run.cbs(effect.fields.get("negValue")), run.cbs(effect.fields.get("value"))
    made = run.world.make_image(prompt, negative, run.character.name)
    run.set(raw_name(effect), IMAGE_FAILED if made is None else made)


@effects.effect("v2ImgGen", low_level=True)
def make_image_v2(run: Run, effect: Effect) -> None:
    """Make a picture and store the tag that shows it."""
    negative, prompt = run.value(effect, "negValue"), run.value(effect, "value")
    made = run.world.make_image(prompt, negative, run.character.name)
    run.output(effect, "null" if made is None else made)


@effects.effect("command")
def command_v1(run: Run, effect: Effect) -> None:
    """Run a command line on the stored chat."""
    run_line(run.world, run.cbs(effect.fields.get("value")), run.run_by_name)


@effects.effect("v2Command")
def command(run: Run, effect: Effect) -> None:
    """Run a command line on the stored chat."""
    run_line(run.world, run.value(effect, "value"), run.run_by_name)
