"""Calls that type checkers judge: a line with ``# wrong`` must be refused, every other line accepted."""

from __future__ import annotations

from tavernkit import Character, User, load, risu_ai
from tavernkit import silly_tavern as st
from tavernkit.cards import CharacterBook
from tavernkit.stores import InMemoryVariablesStore

card = Character(name="Aria")

# Right calls of SillyTavern's builder.
st.build(character=card, message="Hi")
st.build(character=load("aria.png"), history=[{"role": "user", "content": "Hi"}], strict=True)
builder = st.Builder(character=card, user=User(name="Ann"), preset=st.Preset.default(), books=[])
plan: st.ChatPlan = builder.build(history=st.ChatFile(), message="Hi", seed=7, variables=InMemoryVariablesStore())
other: st.Builder = builder.replace(dialect="text")
context: st.SillyTavernContext = builder.make_context(generation_type="swipe")
builder.build(strategy="cache", lore="freeze", volatile="tail", on_overflow="return")

# Wrong calls of SillyTavern's builder.
st.build(charcter=card)  # wrong
st.build(character=card, mesage="Hi")  # wrong
st.build(character=3)  # wrong
st.Builder(character=card, strict="no")  # wrong
builder.build(message=5)  # wrong
builder.replace(books="eldoria.json")  # wrong
builder.make_context(preset="default.json")  # wrong
builder.decide(group=1)  # wrong
builder.build(strategy="best")  # wrong
builder.build(generation_type="loud")  # wrong

# Right calls of RisuAI's builder.
risu_ai.build(character=card, message="Hi")
risu = risu_ai.Builder(character=load("aria.png"), toggles={"mood": 1}, modules=[])
risu_plan: risu_ai.RisuPlan = risu.build(history=risu_ai.RisuChat(), speaker="a", greeting=1)
risu.replace(books=[risu_ai.Lorebook.load("lamp.json"), CharacterBook(), {"type": "risu", "data": []}])
risu.build(regex_scripts=[risu_ai.RegexScript(pattern="a", out="b")])

# Wrong calls of RisuAI's builder.
risu_ai.build(caracter=card)  # wrong
risu_ai.Builder(settings={})  # wrong
risu.build(message=b"Hi")  # wrong
risu.replace(members=5)  # wrong
risu.replace(books="lamp.json")  # wrong
risu.replace(books=[st.WorldBook.from_json({}, name="lamp")])  # wrong
risu.build(greeting="first")  # wrong
risu.build(on_overflow="ignore")  # wrong
risu.build(regex_scripts=[{"in": "a", "out": "b"}])  # wrong
