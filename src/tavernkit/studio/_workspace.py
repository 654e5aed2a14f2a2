"""All documents of a Studio with their history: every change can be undone, and only saving writes to disk."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tavernkit._atomic import write_atomically
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.authoring import diff_values
from tavernkit.studio._changes import Edit, apply_edit, difference_lines, edits_between, same_json
from tavernkit.studio._document import Document, Kind, digest_of, file_content, new_document, read_document
from tavernkit.studio.errors import StudioError

MAX_STEPS: Final = 500
"""How many steps can be undone."""
MAX_DOCUMENTS: Final = 200
MAX_DIFFERENCES: Final = 2000
"""The maximum number of changes listed in a difference."""

SINGLE: Final[tuple[Kind, ...]] = (
    "card",
    "preset",
    "chat",
    "persona",
    "turn",
    "context_template",
    "instruct",
    "system_prompt",
)
"""Kinds of which one document is active."""
SEVERAL: Final[Mapping[Kind, str]] = {"book": "books", "regex": "regex"}
"""Kinds of which any number can be active, and the names of their lists."""
NEEDED: Final[frozenset[str]] = frozenset({"card", "chat", "persona"})


@dataclass(frozen=True, slots=True)
class State:
    """An undo state: the documents by id, and which of them are active."""

    documents: Mapping[str, Document] = field(default_factory=dict[str, Document])
    active: frozenset[str] = frozenset()

    def active_of(self, kind: Kind) -> list[Document]:
        """Return the active documents of a kind, in the order in which they were opened."""
        return [each for each in self.documents.values() if each.kind == kind and each.id in self.active]

    def one(self, kind: Kind) -> Document | None:
        """Return the active document of a kind, if there is one."""
        return next(iter(self.active_of(kind)), None)

    def with_turn(self, **fields: Json) -> State:
        """Return a state whose turn document has other values."""
        turn = self.one("turn")
        if turn is None or not is_object(turn.data):
            return self
        changed = turn.with_data({**turn.data, **fields}, turn.revision)
        return replace(self, documents={**self.documents, turn.id: changed})

    def roles(self) -> JsonObject:
        """The active documents, as JSON for the page."""
        listed: JsonObject = {}
        for kind in SINGLE:
            document = self.one(kind)
            listed[kind] = None if document is None else document.id
        for kind, name in SEVERAL.items():
            listed[name] = [each.id for each in self.active_of(kind)]
        return listed


@dataclass(frozen=True, slots=True)
class _Step:
    before: State
    label: str
    group: str | None


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes of a step, for a page that has the previous documents."""

    before: State
    after: State

    @property
    def edits(self) -> list[Edit]:
        """Edits of existing documents."""
        return [
            edit
            for document in self.after.documents.values()
            if (old := self.before.documents.get(document.id)) is not None
            for edit in edits_between(document.id, old.data, document.data)
        ]

    @property
    def documents(self) -> list[tuple[Document, bool]]:
        """Changed documents, and whether they are new."""
        return [
            (document, document.id not in self.before.documents)
            for document in self.after.documents.values()
            if self.before.documents.get(document.id) is not document
        ]

    @property
    def removed(self) -> list[str]:
        """Ids of removed documents."""
        return [each for each in self.before.documents if each not in self.after.documents]


class Workspace:
    """The documents that are open. States are immutable: a build reads one while the next edit makes another.

    Args:
        documents: The documents to open.
        now: The clock; by default the computer's.

    Raises:
        StudioError: A document that every prompt needs is missing.
    """

    def __init__(self, documents: Sequence[Document], *, now: Callable[[], datetime] | None = None) -> None:
        found: dict[str, Document] = {}
        active: set[str] = set()
        kinds: set[Kind] = set()
        self._counts: dict[str, int] = {}
        for document in documents:
            named = document if document.id else replace(document, id=self.new_id(document.kind))
            found[named.id] = named
            if named.kind in SEVERAL or named.kind not in kinds:
                active.add(named.id)
            kinds.add(named.kind)
        missing = NEEDED - kinds
        if missing:
            raise StudioError(422, f"a workspace needs a {', a '.join(sorted(missing))}", code="incomplete")
        self.state = State(found, frozenset(active))
        self.revision = 1
        self._now = now or (lambda: datetime.now(UTC))
        self._undo: list[_Step] = []
        self._redo: list[_Step] = []
        self._lock = threading.Lock()

    def with_turn(self, data: JsonObject) -> Workspace:
        """Set the initial turn of the workspace, and return the workspace."""
        turn = new_document(self.new_id("turn"), "turn", "Next turn", data)
        self.state = State({**self.state.documents, turn.id: turn}, self.state.active | {turn.id})
        return self

    def new_id(self, kind: Kind) -> str:
        """Return a new id."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind}-{self._counts[kind]}"

    def document(self, document_id: str) -> Document:
        """Return a document.

        Raises:
            StudioError: There is no document with this id.
        """
        found = self.state.documents.get(document_id)
        if found is None:
            raise StudioError(404, f"there is no document {document_id!r}", code="document_not_found")
        return found

    @property
    def undo_label(self) -> str | None:
        """A description of the step that undo would revert."""
        return self._undo[-1].label if self._undo else None

    @property
    def redo_label(self) -> str | None:
        """A description of the step that redo would repeat."""
        return self._redo[-1].label if self._redo else None

    def edit(self, edits: Sequence[Edit], *, group: str | None = None, label: str | None = None) -> Changed:
        """Make edits as one step: all of them, or none.

        Args:
            edits: The edits, in order.
            group: Consecutive edits of one group are one step, e.g. typing in a field.
            label: What undo calls the step; made from the edits by default.

        Raises:
            StudioError: An edit does not fit its document.
        """
        documents = dict(self.state.documents)
        for edit in edits:
            document = documents.get(edit.document) or self.document(edit.document)
            data = apply_edit(document.data, edit)
            if data is not document.data:
                documents[edit.document] = document.with_data(data, self.revision + 1)
        said = label or (_label(self.document(edits[0].document), edits[0]) if edits else "")
        return self._step(replace(self.state, documents=documents), said, group)

    def change(self, document_id: str, data: Json, label: str) -> Changed:
        """Replace the data of a document, as one step.

        Args:
            document_id: The document.
            data: The new data.
            label: What undo calls the step.
        """
        document = self.document(document_id)
        if same_json(document.data, data):
            return Changed(self.state, self.state)
        documents = {**self.state.documents, document_id: document.with_data(data, self.revision + 1)}
        return self._step(replace(self.state, documents=documents), label)

    def add(self, document: Document) -> Changed:
        """Add a document and make it active, as one step.

        Raises:
            StudioError: There are too many documents.
        """
        if len(self.state.documents) >= MAX_DOCUMENTS:
            raise StudioError(422, f"there are {MAX_DOCUMENTS} documents already", code="too_many_documents")
        named = replace(document, id=self.new_id(document.kind), revision=self.revision + 1)
        added = replace(self.state, documents={**self.state.documents, named.id: named})
        return self._step(_activate(added, named, active=True), f"open {named.title}")

    def remove(self, document_id: str) -> Changed:
        """Close a document, as one step. Its file stays.

        Raises:
            StudioError: A prompt needs the document.
        """
        document = self.document(document_id)
        others = [each for each in self.state.documents.values() if each.kind == document.kind and each is not document]
        if document.kind == "turn" or (document.kind in NEEDED and not others):
            raise StudioError(422, f"a prompt needs a {document.kind}", code="needed")
        documents = {key: each for key, each in self.state.documents.items() if key != document_id}
        state = State(documents, self.state.active - {document_id})
        if document.kind in NEEDED and state.one(document.kind) is None:
            state = _activate(state, others[0], active=True)
        return self._step(state, f"close {document.title}")

    def activate(self, document_id: str, *, active: bool = True) -> Changed:
        """Switch a document on or off, as one step.

        Args:
            document_id: The document.
            active: True if prompts use it.

        Raises:
            StudioError: A prompt needs the document.
        """
        document = self.document(document_id)
        if not active and (document.kind == "turn" or document.kind in NEEDED):
            raise StudioError(422, f"a prompt needs a {document.kind}", code="needed")
        return self._step(_activate(self.state, document, active=active), f"switch {document.title}")

    def undo(self) -> Changed:
        """Undo the last step, if there is one."""
        return self._go(self._undo, self._redo)

    def redo(self) -> Changed:
        """Redo the last undone step, if there is one."""
        return self._go(self._redo, self._undo)

    def difference(self, document_id: str) -> JsonObject:
        """Return what saving would change: field by field, and as lines."""
        document = self.document(document_id)
        changes = diff_values(document.original, document.data)
        listed: list[Json] = [
            {"pointer": each.where, "kind": each.kind, "before": each.old, "after": each.new, "name": each.name}
            for each in changes[:MAX_DIFFERENCES]
        ]
        return {
            "document": document.id,
            "changed": bool(changes),
            "conflict": self._conflict(document),
            "changes": listed,
            "unified": [*difference_lines(changes)],
        }

    def save(self, document_id: str, *, overwrite: bool = False) -> tuple[Document, str | None]:
        """Write a document to its file. The old file is kept next to it; returns the document and the copy's name.

        Args:
            document_id: The document.
            overwrite: Overwrite changes of another program.

        Raises:
            StudioError: It has no file, or the file has changed since it was read.
        """
        document = self.document(document_id)
        content, backup = self.write_file(document, overwrite=overwrite)
        return self.mark_saved(document, content), backup

    def write_file(self, document: Document, *, overwrite: bool = False) -> tuple[bytes, str | None]:
        """Do the part of ``save()`` that may run in a thread; returns what was written and the copy's name.

        Args:
            document: The document.
            overwrite: Overwrite changes of another program.

        Raises:
            StudioError: It has no file, another program has changed the file, or it cannot be written.
        """
        path = document.path
        if path is None:
            raise StudioError(409, f"{document.title} has no file to save to: download it", code="not_writable")
        if not overwrite and self._conflict(document):
            message = f"{path.name} has changed on disk since it was opened: overwrite it, or read it again"
            raise StudioError(409, message, code="changed_on_disk")
        content = file_content(document)
        try:
            backup = self._back_up(path)
            write_atomically(path, content)
        except OSError as error:
            raise StudioError(409, f"{path.name} cannot be written: {error.strerror}", code="not_writable") from error
        return content, backup

    def mark_saved(self, document: Document, content: bytes) -> Document:
        """Mark a document as saved, and return it.

        Args:
            document: The document as it was written.
            content: The written content.
        """
        digest = digest_of(content)
        self._everywhere(
            lambda each: replace(each, original=document.data, digest=digest) if each.id == document.id else each
        )
        return self.document(document.id)

    def reload(self, document_id: str, read: Document | None = None) -> Changed:
        """Read a document from its file again, as one step; without a file, restore the original content.

        Args:
            document_id: The document.
            read: What it is now, if it is not a file.
        """
        document = self.document(document_id)
        if read is None and document.path is None:
            return self.change(document_id, document.original, f"{document.title}: as it was opened")
        if read is None:
            assert document.path is not None
            read = read_document(document.path, name=document.path.name, kind=document.kind)
        self._everywhere(
            lambda each: (
                replace(each, original=read.data, digest=read.digest, bundle=read.bundle)
                if each.id == document_id
                else each
            )
        )
        return self.change(document_id, read.data, f"{document.title}: read again")

    def _conflict(self, document: Document) -> bool:
        if document.path is None:
            return False
        try:
            return digest_of(document.path.read_bytes()) != document.digest
        except FileNotFoundError:
            return False  # overwriting it loses nothing
        except OSError:
            return True

    def _back_up(self, path: Path) -> str | None:
        """Copy a file; returns the name of the copy."""
        if not path.exists():
            return None
        stamp = f"{self._now():%Y%m%d-%H%M%S}"
        names = (f"{path.name}.{stamp}{extra}.bak" for extra in ("", *(f"-{number}" for number in range(2, 1000))))
        copy = next(each for name in names if not (each := path.with_name(name)).exists())
        shutil.copy2(path, copy)
        return copy.name

    def _everywhere(self, update: Callable[[Document], Document]) -> None:
        """Change a document in this state and in all undo and redo states, because the disk has no history."""

        def updated(state: State) -> State:
            return replace(state, documents={key: update(each) for key, each in state.documents.items()})

        with self._lock:
            self.state = updated(self.state)
            self._undo = [replace(step, before=updated(step.before)) for step in self._undo]
            self._redo = [replace(step, before=updated(step.before)) for step in self._redo]
            self.revision += 1

    def _step(self, state: State, label: str, group: str | None = None) -> Changed:
        with self._lock:
            before = self.state
            if _is_unchanged(before, state):
                return Changed(before, before)
            same = group is not None and bool(self._undo) and self._undo[-1].group == group and not self._redo
            if not same:
                self._undo.append(_Step(before, label, group))
                del self._undo[:-MAX_STEPS]
            self._redo.clear()
            self.state = state
            self.revision += 1
            return Changed(before, state)

    def _go(self, out: list[_Step], back: list[_Step]) -> Changed:
        with self._lock:
            before = self.state
            if not out:
                return Changed(before, before)
            step = out.pop()
            back.append(_Step(before, step.label, None))
            self.state = step.before
            self.revision += 1
            return Changed(before, step.before)


def _is_unchanged(before: State, after: State) -> bool:
    if before.active != after.active or before.documents.keys() != after.documents.keys():
        return False
    return all(before.documents[key] is each for key, each in after.documents.items())


def _activate(state: State, document: Document, *, active: bool) -> State:
    ids = state.active - {document.id}
    if active:
        if document.kind in SINGLE:
            ids -= {each.id for each in state.documents.values() if each.kind == document.kind}
        ids |= {document.id}
    return replace(state, active=ids)


def _label(document: Document, edit: Edit) -> str:
    last = [part for part in edit.path.split("/") if part and not part.isdecimal()]
    return f"{document.title}: {last[-1]}" if last else document.title
