"""`vibe_tavern/liquid_macros`: templates, their variables, and user input."""

from __future__ import annotations

from typing import Any

from tavernkit.cards._character import Character, User
from tavernkit.prompt._context import underscore
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern._liquid_macros.render import build_assigns, preprocess_user_input, render_liquid
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if given["op"] == "assigns":
        return {"assigns": build_assigns(_character(given), _user(given), _context(given))}
    variables = given.get("variables")
    store = None if variables is None else InMemoryVariablesStore(variables)
    context = _context(given)
    if given["op"] == "preprocess_user_input":
        return {
            "output": preprocess_user_input(
                given["text"], variables=store, context=context, enabled=given.get("enabled")
            )
        }
    try:
        output = render_liquid(
            _text(given["template"]),
            assigns={**given.get("assigns", {}), **({"context": context} if context else {})},
            variables=store,
            context=context,
            strict=given.get("strict", False),
            on_error=given.get("on_error", "passthrough"),
        )
    except Exception as error:
        return {"error": error_form(error)}
    after = store.to_dict() if store else {}
    expected = case.expected.get("output")
    same = isinstance(expected, dict) and output == _text(expected)
    return {
        "output": expected if same else output,
        "local_after": after.get("local", {}),
        "global_after": after.get("global", {}),
    }


def _context(given: Any) -> dict[str, Any]:
    return {underscore(key): value for key, value in (given.get("context") or {}).items()}


def _text(form: Any) -> str:
    return form["repeat"] * form["times"] if isinstance(form, dict) else form


def _character(given: Any) -> Character | None:
    fields = given.get("character")
    if fields is None:
        return None
    if "mes_examples" in fields:
        fields = {**fields, "mes_example": fields["mes_examples"]}
    fields = fields.get("data", fields)
    return Character(
        **{key: value for key, value in fields.items() if key in Character.__slots__ and value is not None}
    )


def _user(given: Any) -> User | None:
    fields = given.get("user")
    if fields is None:
        return None
    return User(fields.get("name") or "", fields.get("persona") or fields.get("persona_text") or "")
