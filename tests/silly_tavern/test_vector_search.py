from __future__ import annotations

import json
from collections.abc import Sequence

from tavernkit.embeddings import VectorIndex
from tavernkit.silly_tavern import Chat, ChatFile, ChatPlan, Settings, VectorResults, index_chat, search_vectors
from tests.silly_tavern.scene import build, card, contents
from tests.silly_tavern.test_chat import Host

WORDS = ("key", "boat", "lamp")


class WordCounts:
    """Makes vectors of how often a text has some words."""

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += len(texts)
        return [[float(text.count(word)) for word in WORDS] for text in texts]


def test_what_a_plan_asks_for_is_found_and_used_in_the_next_build():
    lines = ["Bram has the key.", "The boat is lost.", "The lamp is lit.", "Hm.", "Yes."]
    history = [{"name": "Lyra", "mes": text} for text in lines]
    settings = Settings.from_json(
        {"extension_settings": {"vectors": {"enabled_chats": True, "query": 1, "protect": 2}}}
    )
    index, embedder = VectorIndex(), WordCounts()
    plan = build(history=history, settings=settings, message="Who has the key?")
    assert plan.vector_texts == (*lines, "Who has the key?")
    index_chat(plan.vector_texts, index, embedder)
    results = search_vectors(plan.vector_calls, index, embedder)
    found = build(history=history, settings=settings, message="Who has the key?", vectors=results)
    assert "Past events:\nLyra: Bram has the key." in contents(found)
    assert "The boat is lost." in contents(found)


def test_what_is_indexed_is_not_embedded_again():
    index, embedder = VectorIndex(), WordCounts()
    index_chat(["a key", "a boat"], index, embedder)
    index_chat(["a key", "a boat", "a lamp"], index, embedder)
    assert embedder.asked == 3


def test_files_of_the_data_bank_are_cut_indexed_and_found():
    file = {"url": "/user/files/a.txt", "name": "a.txt", "size": 99_999}
    vectors = {"enabled_files": True, "chunk_size_db": 20, "chunk_count_db": 1}
    settings = Settings.from_json({"extension_settings": {"vectors": vectors, "attachments": [file]}})
    texts = {file["url"]: "The key is brass.\n\nThe boat is blue."}
    index, embedder = VectorIndex(), WordCounts()
    plan = build(settings=settings, attachments=texts, message="A blue boat?", history=[])
    results = search_vectors(plan.vector_calls, index, embedder)
    found = build(settings=settings, attachments=texts, message="A blue boat?", history=[], vectors=results)
    assert "Related information:\nThe boat is blue.\n\n" in contents(found)


async def test_a_chat_searches_before_each_prompt():
    settings = Settings.from_json(
        {"extension_settings": {"vectors": {"enabled_chats": True, "query": 1, "protect": 2}}}
    )
    lines = ["Bram has the key.", "The boat is lost.", "Hm."]
    text = "\n".join(json.dumps({"name": "Lyra", "mes": each}) for each in lines)
    embedder, searched = WordCounts(), list[str]()

    def search(plan: ChatPlan) -> VectorResults:
        index = VectorIndex()
        index_chat(plan.vector_texts, index, embedder)
        searched.append(plan.vector_calls[-1].search_text)
        return search_vectors(plan.vector_calls, index, embedder)

    chat = Chat(Host(), chat=ChatFile.loads(text), character=card(), settings=settings, search=search, warn=None)
    chat.host.chat = chat  # pyright: ignore[reportAttributeAccessIssue]  # it is the tests' own
    first = await chat.send("Who has the key?")
    second = await chat.send("And the boat?")
    assert searched == ["Who has the key?", "And the boat?"]
    assert isinstance(first.plan, ChatPlan)
    assert isinstance(second.plan, ChatPlan)
    assert "Past events:\nLyra: Bram has the key." in contents(first.plan)
    memory = "Past events:\nLyra: The boat is lost."
    assert memory in contents(second.plan)
    # A quiet prompt searches nothing and has what the last prompt found, while the line stays in the chat.
    chat.restore(json.loads(json.dumps(chat.snapshot())))
    quiet = await chat.quiet("What happened?")
    assert isinstance(quiet.plan, ChatPlan)
    assert searched == ["Who has the key?", "And the boat?"]
    assert memory in contents(quiet.plan)
    assert "The boat is lost." in contents(quiet.plan)
    assert "found for an earlier prompt" in str([block.source for block in quiet.plan.blocks])
    chat.change(settings=Settings())
    await chat.send("Hm?")
    quiet = await chat.quiet("What happened?")
    assert isinstance(quiet.plan, ChatPlan)
    assert memory not in contents(quiet.plan)
