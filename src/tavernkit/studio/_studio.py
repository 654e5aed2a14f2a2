"""A workspace with everything that the page needs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tavernkit import __version__
from tavernkit._values import Json, JsonObject
from tavernkit.cache import PROFILES
from tavernkit.conversation import ToolInput
from tavernkit.errors import TavernKitError
from tavernkit.lint import lint_file
from tavernkit.prompt._inputs import GENERATION_TYPES
from tavernkit.report._overview import FAMILIES
from tavernkit.studio import _lore_lab as lore_lab
from tavernkit.studio import _playground as playground
from tavernkit.studio._api_types import CaseIn, EditIn, OpenIn, SideIn
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._changes import Edit
from tavernkit.studio._document import (
    JSONL,
    KINDS,
    RISU_CHAT,
    Document,
    as_kind,
    empty_data,
    file_content,
    new_document,
    read_document,
)
from tavernkit.studio._prompts import DIALECTS, Prompts, Side, compare
from tavernkit.studio._shelf import OpenRequest, Shelf
from tavernkit.studio._talk import Talk
from tavernkit.studio._talk_models import ModelChoice
from tavernkit.studio._turn import RISU_AI, Turn
from tavernkit.studio._workspace import Changed, State, Workspace
from tavernkit.studio.errors import StudioError

MAX_FINDINGS: Final = 500
_CHECKED: Final = frozenset({"card", "book", "preset", "context_template", "instruct", "regex"})
_SEVERITIES: Final = {"info": "note"}


class Studio:
    """One workspace, the prompts built from it, and the conversation over it."""

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
        self.shelf = shelf
        self.prompts = Prompts(self)
        self.talk = Talk(self, models=models, tools=tools)

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
            "models": self.talk.models.describe(),
            "model": self.talk.models.chosen,
            "cache_profiles": list(PROFILES),
            "generation_types": list(GENERATION_TYPES),
            "folder": self.shelf is not None,
            "version": __version__,
        }

    def changes_json(self, changed: Changed, build: JsonObject | None = None) -> JsonObject:
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

    async def reload(self, document_id: str) -> Changed:
        """Read a document from its file or from the library again, as one step.

        Raises:
            StudioError: A reply is being added to this chat.
        """
        self.talk.check_free(document_id)
        workspace = self.workspace
        document = workspace.document(document_id)
        return workspace.reload(document_id, await self._shelf().read(document) if document.item else None)

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
        wanted = OpenRequest(
            character=asked.character,
            group=asked.group,
            chat=asked.chat,
            preset=asked.preset,
            books=asked.books,
            platform=asked.platform,
        )
        found = await shelf.open(wanted)
        self.talk.check_free()  # a turn may have begun in the meantime, and would end in the other chat
        self.workspace, self.inputs = found.workspace, found.inputs
        self.prompts.forget()
        self.talk.forget()

    async def save(self, document_id: str, *, overwrite: bool = False) -> tuple[Document, str | None]:
        """Write a document to its file, or to the library it came from; see ``Workspace.save()``.

        Args:
            document_id: The document.
            overwrite: Overwrite changes that were made elsewhere.

        Raises:
            StudioError: It was changed elsewhere, or it cannot be written.
        """
        workspace = self.workspace  # another may be opened in the meantime
        document = workspace.document(document_id)
        if not document.item:
            content, kept = await asyncio.to_thread(workspace.write_file, document, overwrite=overwrite)
            return workspace.mark_saved(document, content), kept
        content = await asyncio.to_thread(file_content, document)
        kept = await self._shelf().write(document, content, overwrite=overwrite)
        return workspace.mark_saved(document, content), kept

    async def difference(self, document_id: str) -> JsonObject:
        """Return what saving would change, and whether the document was changed elsewhere."""
        document = self.workspace.document(document_id)
        changes = await asyncio.to_thread(self.workspace.difference, document_id)
        if document.item:
            changes["conflict"] = await self._shelf().is_changed(document)
        return changes

    def _shelf(self) -> Shelf:
        if self.shelf is None:
            raise StudioError(
                404, "there is no folder to open from: files are named on the command line", code="no_folder"
            )
        return self.shelf

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
        return await asyncio.to_thread(_check, self.workspace.state)

    def warm_up(self) -> None:
        """Load what the first build needs."""
        with suppress(TavernKitError):
            self.inputs.build(self.workspace.state)


def _check(state: State) -> JsonObject:
    """Return the findings of all active documents."""
    found: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="tavernkit-studio-") as folder:
        for document in state.documents.values():
            if document.id in state.active and document.kind in _CHECKED:
                found += _findings(document, Path(folder))
    return {"findings": found[:MAX_FINDINGS]}


def _findings(document: Document, folder: Path) -> list[Json]:
    if document.format in (JSONL, RISU_CHAT):
        return []
    path = folder / f"{document.id}{Path(document.file_name).suffix}"
    try:
        path.write_bytes(file_content(document))
    except StudioError as error:
        return [_row(document, "", "error", "CANNOT_WRITE", str(error), "")]
    _, findings = lint_file(path)
    return [
        _row(document, each.where if each.where != "/" else "", str(each.severity), each.code, each.message, each.hint)
        for each in findings
    ]


def _row(document: Document, pointer: str, severity: str, code: str, message: str, hint: str) -> JsonObject:
    return {
        "document": document.id,
        "pointer": pointer,
        "severity": _SEVERITIES.get(severity, severity),
        "code": code,
        "message": message,
        "hint": hint,
    }
