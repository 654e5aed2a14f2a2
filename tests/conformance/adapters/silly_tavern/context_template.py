"""Rendering of story strings."""

from __future__ import annotations

from tavernkit.cards import Character
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate
from tavernkit.silly_tavern._text_completion.story import StoryMacros, render_story_string
from tavernkit.silly_tavern.errors import InvalidContextTemplateError
from tests.conformance.runner import Case

ENGINE = MacroEngine()


def run(case: Case) -> object:
    given, page, params = case.input, case.input["page"], case.input["params"]
    instruct = InstructTemplate(**given["instruct"])
    context = ContextTemplate(story_string=given["story_string"], **given["context"])
    environment = MacroEnvironment(
        user_name=page["user"],
        character_name=page["char"],
        character=Character(
            name="", description=page["description"], personality=page["personality"], scenario=page["scenario"]
        ),
        persona=page["persona"],
        main_api="textgenerationwebui",
        instruct=instruct,
        context=context,
    )

    def ignore(_message: str) -> None:
        pass

    macros = StoryMacros(
        live=lambda text: ENGINE.expand(text, environment, warn=ignore),
        finish=lambda text: ENGINE.expand(
            text, environment, warn=ignore, user_name=params["user"], character_name=params["char"]
        ),
    )
    try:
        story = render_story_string(context, instruct, params, macros)
    except InvalidContextTemplateError:
        return {"throws": True}
    assert "".join(part.text for part in story.parts) == story.text
    return {"result": story.text}
