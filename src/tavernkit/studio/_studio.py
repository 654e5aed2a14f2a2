"""A workspace with everything that the page needs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tavernkit import __version__, risu_ai, silly_tavern
from tavernkit._values import Json, JsonObject, LRUCache, thaw, thaw_object
from tavernkit.cache import PROFILES
from tavernkit.conversation import ToolInput
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.models._bodies import request_body
from tavernkit.prompt._plan import Plan
from tavernkit.report._source_families import FAMILIES
from tavernkit.studio import _lore_lab as lore_lab
from tavernkit.studio import _playground as playground
from tavernkit.studio._api_types import CaseIn, EditIn, OpenIn, SideIn
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._checks import check
from tavernkit.studio._compare import Side, compare
from tavernkit.studio._document import (
    KINDS,
    Document,
    as_kind,
    empty_data,
    file_content,
    new_document,
    read_document,
)
from tavernkit.studio._patches import Edit
from tavernkit.studio._prompt_view import Look, build_view, cache_view, failed_view, sources_view
from tavernkit.studio._shelf import Shelf, Wanted
from tavernkit.studio._talk import ModelChoice, Talk
from tavernkit.studio._turn import GENERATION_TYPES, RISU_AI, Turn
from tavernkit.studio._workspace import Changed, State, Workspace
from tavernkit.studio.errors import StudioError

MAX_LOOKS: Final = 60
"""How many prompts are kept, for later requests and for "what the model saw"."""
MAX_REPLAYED: Final = 3
"""How many previous turns fill a provider's cache."""
DIALECTS: Final = ("openai", "anthropic", "google", "cohere", "mistral", "ai21", "xai", "text")


class Studio:
    """One workspace and the prompts built from it. The newest build wins: older waiting ones are skipped."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        inputs: Inputs | None = None,
        shelf: Shelf | None = None,
        models: Sequence[ModelChoice] = (),
        tools: Sequence[ToolInput] = (),
    ) -> None:
        """Make it.

        Args:
            workspace: The documents.
            inputs: Makes inputs of builds; with the settings of an installation, if it comes from one.
            shelf: Where other characters are opened from.
            models: Models to talk to, besides the scripted one.
            tools: Functions that these may call.
        """
        self.workspace = workspace
        self.inputs = inputs or Inputs()
        self.looks: LRUCache[str, Look] = LRUCache(MAX_LOOKS)
        self.last: Look | None = None
        """The last prompt."""
        self.shelf = shelf
        self.talk = Talk(self, models=models, tools=tools)
        self._numbers = 0
        self._asked = 0
        self._building = asyncio.Lock()
        self._threads = threading.Lock()

    # What the page shows.

    def describe(self, *, data: bool = True) -> JsonObject:
        """Return the workspace as JSON."""
        workspace = self.workspace
        return {
            "revision": workspace.revision,
            "platform": Turn.of(workspace.state).platform,
            **self._history(),
            "documents": [each.to_dict(data=data) for each in workspace.state.documents.values()],
            "active": workspace.state.roles(),
            "families": [{"name": each.name, "label": each.label, "colour": each.colour} for each in FAMILIES],
            "dialects": list(DIALECTS),
            "models": self.talk.models(),
            "model": self.talk.model_id,
            "cache_profiles": list(PROFILES),
            "generation_types": list(GENERATION_TYPES),
            "folder": self.shelf is not None,
            "version": __version__,
        }

    def changed(self, changed: Changed, build: JsonObject | None = None) -> JsonObject:
        """Return the changes of a step as JSON.

        Args:
            changed: The change.
            build: The prompt after it, if requested.
        """
        documents: list[Json] = [document.to_dict(data=new) for document, new in changed.documents]
        return {
            "revision": self.workspace.revision,
            **self._history(),
            "documents": documents,
            "applied": [edit.to_dict() for edit in changed.edits],
            "removed": list(changed.removed),
            "active": self.workspace.state.roles(),
            "build": build,
        }

    def _history(self) -> JsonObject:
        undo, redo = self.workspace.undo_label, self.workspace.redo_label
        return {"can_undo": undo is not None, "can_redo": redo is not None, "undo": undo, "redo": redo}

    def edit(self, edits: Sequence[EditIn], *, group: str | None = None, label: str | None = None) -> Changed:
        """Make edits as one step.

        Args:
            edits: The edits as the page sends them.
            group: Consecutive edits of one group are one step.
            label: What undo calls the step.

        Raises:
            StudioError: An edit does not fit its document, or a reply is being added to this chat.
        """
        for each in edits:
            self.talk.check_free(each.document)
        made = [Edit(document=e.document, op=e.op, path=e.path, value=e.value, source=e.source) for e in edits]
        return self.workspace.edit(made, group=group, label=label)

    def undo(self) -> Changed:
        """Undo the last step, if there is one.

        Raises:
            StudioError: A reply is still streaming.
        """
        self.talk.check_free()
        return self.workspace.undo()

    def redo(self) -> Changed:
        """Redo the last undone step, if there is one.

        Raises:
            StudioError: A reply is still streaming.
        """
        self.talk.check_free()
        return self.workspace.redo()

    def remove(self, document_id: str) -> Changed:
        """Close a document, as one step. Its file stays.

        Raises:
            StudioError: A prompt needs the document, or a reply is being added to this chat.
        """
        self.talk.check_free(document_id)
        return self.workspace.remove(document_id)

    def reload(self, document_id: str) -> Changed:
        """Read a document from its file again, as one step.

        Raises:
            StudioError: A reply is being added to this chat.
        """
        self.talk.check_free(document_id)
        return self.workspace.reload(document_id)

    def make(self, kind: str | None, name: str) -> Changed:
        """Add a new document: a preset or template begins as the program's default, anything else empty.

        Args:
            kind: What it is.
            name: What it is called.

        Raises:
            StudioError: There is no such kind.
        """
        found = as_kind(kind)
        if found is None:
            raise StudioError(422, f"the kind is one of {', '.join(KINDS)}", code="unknown_kind")
        data, format_ = empty_data(found, risu=Turn.of(self.workspace.state).platform == RISU_AI)
        return self.workspace.add(new_document("", found, name or f"New {found}", data, format_=format_))

    def file(self, document_id: str) -> tuple[str, bytes]:
        """Return the name and content of a document's file, as saving would write it."""
        document = self.workspace.document(document_id)
        return document.file_name, file_content(document)

    def open_upload(self, name: str, content: str, kind: str | None) -> Changed:
        """Add a file that was chosen in the browser.

        Args:
            name: The file's name.
            content: Its bytes in Base64.
            kind: Its kind; detected by default.

        Raises:
            StudioError: There is no such kind, or the content is not Base64.
        """
        if kind is not None and kind not in KINDS:
            raise StudioError(422, f"the kind is one of {', '.join(KINDS)}", code="unknown_kind")
        try:
            read = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise StudioError(422, "the content is not Base64", code="bad_content") from error
        return self.workspace.add(read_document(read, name=name, kind=as_kind(kind)))

    async def choices(self) -> JsonObject:
        """Return what can be opened from the folder or library."""
        return await self._shelf().choices()

    async def open(self, asked: OpenIn, *, discard: bool = False) -> None:
        """Open another character of the folder or library, instead of all documents.

        Args:
            asked: What to open.
            discard: Discard unsaved changes.

        Raises:
            StudioError: There are unsaved changes.
        """
        shelf = self._shelf()
        unsaved = [
            each.title
            for each in self.workspace.state.documents.values()
            if (each.path or each.item) and not each.saved
        ]
        if unsaved and not discard:
            raise StudioError(409, f"not saved: {', '.join(unsaved[:5])}", code="unsaved")
        self.talk.check_free()
        wanted = Wanted(
            character=asked.character,
            group=asked.group,
            chat=asked.chat,
            preset=asked.preset,
            books=asked.books,
            platform=asked.platform,
        )
        found = await shelf.open(wanted)
        self.workspace, self.inputs = found.workspace, found.inputs
        self.looks.clear()
        self.last = None
        self.talk.forget()

    async def save(self, document_id: str, *, overwrite: bool = False) -> tuple[Document, str | None]:
        """Write a document to its file, or to the library it came from; see ``Workspace.save()``.

        Args:
            document_id: The document.
            overwrite: Overwrite changes that were made elsewhere.

        Raises:
            StudioError: It was changed elsewhere, or it cannot be written.
        """
        document = self.workspace.document(document_id)
        if not document.item:
            workspace = self.workspace
            content, kept = await asyncio.to_thread(workspace.write_file, document, overwrite=overwrite)
            return workspace.mark_saved(document, content), kept
        shelf = self._shelf()
        if not overwrite and await shelf.changed(document):
            raise StudioError(409, f"{document.title} has been changed by somebody else", code="changed_on_disk")
        content = await asyncio.to_thread(file_content, document)
        kept = await shelf.write(document, content)
        return self.workspace.mark_saved(document, content), kept

    async def difference(self, document_id: str) -> JsonObject:
        """Return what saving would change, and whether the document was changed elsewhere."""
        document = self.workspace.document(document_id)
        changes = await asyncio.to_thread(self.workspace.difference, document_id)
        if document.item:
            changes["conflict"] = await self._shelf().changed(document)
        return changes

    def _shelf(self) -> Shelf:
        if self.shelf is None:
            raise StudioError(
                404, "there is no folder to open from: files are named on the command line", code="no_folder"
            )
        return self.shelf

    # Prompts.

    async def build(self, since: str | None = None) -> JsonObject:
        """Build the prompt of the current documents; a newer waiting call wins.

        Args:
            since: The id of the prompt to compare with; the last one by default.
        """
        self._asked += 1
        mine = self._asked
        async with self._building:
            if mine != self._asked:
                return {"superseded": True, "revision": self.workspace.revision}
            return await asyncio.to_thread(self._build_now, since)

    def _build_now(self, since: str | None) -> JsonObject:
        state, revision = self.workspace.state, self.workspace.revision
        before = self.looks.get(since) if since is not None else self.last
        try:
            look = self.look(state, revision)
        except TavernKitError as error:
            code = str(getattr(error, "code", None) or "build_failed").lower()
            return failed_view(str(error), code, revision=revision, platform=Turn.of(state).platform)
        self.last = look
        return build_view(look, before)

    def look(self, state: State, revision: int = 0, plan: Plan | None = None) -> Look:
        """Build a prompt and keep it.

        Args:
            state: The documents.
            revision: Their revision.
            plan: The prompt, if it was built already.
        """
        started = time.perf_counter()
        built = self.inputs.build(state) if plan is None else plan
        spent = (time.perf_counter() - started) * 1000
        with self._threads:
            self._numbers += 1
            name = f"p{self._numbers}"
        turn = Turn.of(state)
        card = state.one("card")
        look = Look(name, state, built, turn.platform, revision, card.title if card is not None else "", spent)
        self.looks.put(name, look)
        return look

    def find(self, plan: str) -> Look:
        """Return a prompt that was built before.

        Raises:
            StudioError: It is no longer kept.
        """
        found = self.looks.get(plan)
        if found is None:
            raise StudioError(404, "this prompt is not remembered any more: build it again", code="plan_gone")
        return found

    def seen(self, plan: str) -> JsonObject:
        """Return a prompt that was built before as JSON: what the model saw."""
        return build_view(self.find(plan), None)

    async def sources(self, plan: str) -> JsonObject:
        """Return where every character of a prompt comes from."""
        return await asyncio.to_thread(sources_view, self.find(plan))

    async def request(self, plan: str, dialect: str, *, reference: bool = False) -> JsonObject:
        """Return what would be sent to a provider. It has no keys.

        Args:
            plan: The id of the prompt.
            dialect: The provider's protocol.
            reference: Return exactly what the other program sends.

        Raises:
            StudioError: There is no such prompt or dialect, or the request cannot be made.
        """
        look = self.find(plan)
        warnings = WarningLog()

        def make() -> JsonObject:
            if reference:
                wire = look.plan.request(reference=True, warn=warnings).wire
                assert wire is not None
                return {"body": thaw(wire.body), "url": wire.url}
            body = thaw_object(request_body(look.plan.request(dialect), warn=warnings))
            if body.get("model") == "":
                del body["model"]
                warnings("no model is chosen, neither in the preset nor for the next turn")
            return {"body": body}

        if dialect not in DIALECTS:
            raise StudioError(422, f"the dialect is one of {', '.join(DIALECTS)}", code="unknown_dialect")
        try:
            made = await asyncio.to_thread(make)
        except TavernKitError as error:
            raise StudioError(422, str(error), code="no_request") from error
        return {"dialect": dialect, **made, "warnings": list(warnings.messages)}

    async def cache(self, plan: str, profile: str) -> JsonObject:
        """Return what a provider's cache has of a prompt after the previous turns.

        Args:
            plan: The id of the prompt.
            profile: The provider.

        Raises:
            StudioError: There is no such prompt or profile.
        """
        if profile not in PROFILES:
            raise StudioError(422, f"the profile is one of {', '.join(PROFILES)}", code="unknown_profile")
        look = self.find(plan)
        return await asyncio.to_thread(self._cache_now, look, profile)

    def _cache_now(self, look: Look, profile: str) -> JsonObject:
        builder = self.inputs.builder(look.state)
        turns = [*(risu_ai.replay(builder) if isinstance(builder, risu_ai.Builder) else silly_tavern.replay(builder))]
        earlier: Sequence[Plan] = [turn.plan for turn in turns[-MAX_REPLAYED:]]
        return cache_view(look, earlier, _said_before(earlier), profile)

    # The lab, comparisons and playgrounds.

    async def scan_lore(self, text: str, *, with_chat: bool) -> JsonObject:
        """Return which lore entries fire for a text, and why others do not.

        Args:
            text: The text.
            with_chat: Include the chat before it.
        """
        return await asyncio.to_thread(lore_lab.scan, self.inputs, self.workspace.state, text, with_chat=with_chat)

    async def chart_lore(self) -> JsonObject:
        """Return which lore entries were in the prompt of each reply of the chat."""
        return await asyncio.to_thread(lore_lab.chart, self.inputs, self.workspace.state)

    def keep_finding(self, asked: CaseIn) -> JsonObject:
        """Return a finding of the lab as a test, and optionally write it."""
        finding = lore_lab.Finding(
            name=asked.name,
            text=asked.text,
            fires=asked.fires,
            stays_out=asked.stays_out,
            with_chat=asked.with_chat,
        )
        return lore_lab.keep(self.workspace.state, finding, write=asked.write)

    async def compare(self, left: SideIn, right: SideIn) -> JsonObject:
        """Return two prompts side by side.

        Args:
            left: One side.
            right: The other.
        """
        sides = [Side(version=side.version, platform=side.platform, instead=side.instead) for side in (left, right)]
        return await asyncio.to_thread(compare, self, *sides)

    async def try_macros(self, text: str, engine: str) -> JsonObject:
        """Return the expansion of a text with macros or CBS.

        Args:
            text: The text.
            engine: Whose macros.
        """
        return await asyncio.to_thread(playground.try_macros, self.inputs, self.workspace.state, text, engine)

    async def try_script(self, script: Mapping[str, Json], text: str, engine: str) -> JsonObject:
        """Return the result of a regex script on a text.

        Args:
            script: The script.
            text: The text.
            engine: Whose script it is.
        """
        state = self.workspace.state
        return await asyncio.to_thread(playground.try_script, self.inputs, state, script, text, engine)

    async def lint(self) -> JsonObject:
        """Return what lint finds in the documents."""
        return await asyncio.to_thread(check, self.workspace.state)

    def warm_up(self) -> None:
        """Load what the first build needs."""
        with suppress(TavernKitError):
            self.inputs.build(self.workspace.state)


def _said_before(plans: Sequence[Plan]) -> str:
    if not plans:
        return ""
    said = [message.content for message in plans[-1].messages if message.role == "user"]
    return said[-1][:80] if said else ""
