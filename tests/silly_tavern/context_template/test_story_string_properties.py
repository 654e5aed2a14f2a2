from __future__ import annotations

from hypothesis import given, settings

from tests.silly_tavern.context_template import properties as p

quick = settings(max_examples=200, deadline=None)

test_templates_are_refused_with_a_place_or_rendered_whole = quick(given(p.templates)(p.check_parts))
test_texts_without_tags_stay_as_they_are = quick(given(p.templates)(p.check_plain))
