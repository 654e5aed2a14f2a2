from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.risu_ai.building import properties as p

quick = settings(max_examples=60, deadline=None)
FLAGS = st.sets(
    st.sampled_from(["hasFullSystemPrompt", "hasFirstSystemPrompt", "requiresAlternateRole", "mustStartWithUserInput"])
)
JINJA = st.lists(
    st.sampled_from(
        ["{% for m in messages %}", "{% endfor %}", "{{ m.content }}", "{{", "}}", "{% if", "x", "{#", "'"]
    ),
    max_size=6,
).map("".join)

test_builds_give_a_plan_that_explains_itself_and_repeats = quick(given(p.scenes)(p.check_build))
test_generic_strategies_work_on_any_build = quick(given(p.scenes)(p.check_generic_strategies_fit))
test_sends_give_a_chat_to_go_on_with = quick(given(p.scenes, st.lists(p.texts, max_size=2))(p.check_send))
test_templates_are_written_as_they_were_read = quick(given(st.lists(p.cards, max_size=4))(p.check_template_round_trip))
test_presets_go_to_silly_tavern_and_back = quick(given(p.databases)(p.check_preset_goes_to_silly_tavern_and_back))
test_roles_are_rewritten_for_any_model = quick(given(p.chat_messages, FLAGS)(p.check_reformat))
test_chat_templates_render_or_refuse = quick(given(p.chat_messages, JINJA)(p.check_chat_templates))
test_replies_are_cut_to_a_beginning = quick(given(st.text("ab .!\n", max_size=20))(p.check_cut))
