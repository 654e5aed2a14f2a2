"""Sessions and their messages."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response

from tavernkit._values import JsonObject
from tavernkit.server import logs
from tavernkit.server.adapters.turn import LineChange, OperationKind, TurnKind
from tavernkit.server.api.dependencies import Caller, ChatClient, TheCaller, TheService
from tavernkit.server.api.library import PathId
from tavernkit.server.api.openai import new_message, parse_model
from tavernkit.server.api.openai_types import KEPT_OPTIONS, ChatMessageIn, Platform
from tavernkit.server.api.replies import ReplyListener, answer, until_done
from tavernkit.server.api.session_types import (
    BranchIn,
    ButtonIn,
    ContinueIn,
    MessageIn,
    MessageList,
    MessageOut,
    MessagePatch,
    OperationOut,
    QuietIn,
    SessionIn,
    SessionOut,
    SessionPage,
    SessionPatch,
    SwipeIn,
    TriggerIn,
    TurnIn,
    TurnOut,
)
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_MESSAGES, MAX_PAGE
from tavernkit.server.service import Service
from tavernkit.server.sessions.changes import branch_chat, change_message, owned_by, remove_messages
from tavernkit.server.sessions.files import chat_file, forget_conversation
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.lines import read_lines
from tavernkit.server.storage.tables import new_id, storable_json
from tavernkit.server.turns.request import NewMessage, TurnRequest

router = APIRouter(prefix="/api/sessions", tags=["sessions"])

NOTHING: dict[str, object] = {"books": [], "variables": {}, "details": {}}
"""The values of fields that were removed."""

STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "With ``stream``: events delta, speaker, turn, error."}
}


@router.get("")
async def list_sessions(
    service: TheService,
    client: ChatClient,
    before: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    character: Annotated[str | None, Query(max_length=100)] = None,
    group: Annotated[str | None, Query(max_length=100)] = None,
    platform: Platform | None = None,
    session: Annotated[str | None, Query(max_length=MAX_ID_CHARACTERS)] = None,
) -> SessionPage:
    """A page of the client's sessions, the latest first; can be filtered by character, group, platform or session."""
    wanted = {"character": character, "group": group, "platform": platform, "external_id": session}
    chosen = {name: value for name, value in wanted.items() if value is not None}
    async with service.database.read() as connection:
        found = await chats.list_chats(connection, owned_by(client), before=_place(before), limit=limit, chosen=chosen)
    now = time.time()
    following = f"{found[-1].updated_at!r}:{found[-1].id}" if len(found) == limit else None
    return SessionPage(data=[SessionOut.of(chat, now) for chat in found], next=following)


@router.post("", status_code=201)
async def create_session(body: SessionIn, service: TheService, client: ChatClient) -> SessionOut:
    """Start a session."""
    selection = parse_model(body.model, body.tavernkit)
    await service.library.prepare(service.database, selection)
    async with service.database.write() as connection:
        external_id = body.session or new_id()
        await chats.refuse_taken(connection, client.owner, external_id)
        chat = await service.turns.log.sessions.new_chat(
            connection, client.owner, external_id, selection, greeting=body.greeting, options=body.tavernkit.kept
        )
    return SessionOut.of(chat, time.time())


@router.get("/{session_id}")
async def get_session(session_id: PathId, service: TheService, client: ChatClient) -> SessionOut:
    """One session, with its variables and the platform's own data."""
    async with service.database.read() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client))
    return SessionOut.of(chat, time.time())


@router.patch("/{session_id}")
async def change_session(session_id: PathId, body: SessionPatch, service: TheService, client: ChatClient) -> SessionOut:
    """Choose another persona, preset or books, or set variables and the author's note."""
    given = body.model_dump(exclude_unset=True)
    changes: dict[str, object] = {name: NOTHING.get(name) if value is None else value for name, value in given.items()}
    chosen = {name: changes.pop(name) for name in KEPT_OPTIONS if name in changes}
    if "variables" in changes:
        changes["variables"] = {"local": changes["variables"]}
    await _prepare(service, client, session_id)
    async with service.database.write() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client), lock=True)
        _refuse_busy(chat.busy(time.time()))
        selection = Selection(
            persona=body.persona, preset=body.preset, books=tuple(body.books or ()), platform=chat.selection.platform
        )
        await service.library.cast(connection, selection)
        if chosen:
            kept = {name: value for name, value in {**chat.options, **chosen}.items() if value is not None}
            changes["options"] = kept
        await chats.update_chat(connection, chat, **storable_json(changes))
        chat = await chats.get_chat(connection, session_id)
        if "persona" in changes:
            await service.turns.log.sessions.greet_again(connection, chat)
    return SessionOut.of(chat, time.time())


@router.delete("/{session_id}", status_code=204)
async def delete_session(session_id: PathId, service: TheService, client: ChatClient) -> Response:
    """Remove a session with all its messages."""
    async with service.database.write() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client), lock=True)
        await forget_conversation(connection, chat.id)
        await chats.delete_chat(connection, chat)
    service.turns.vectors.forget(chat.id)
    return Response(status_code=204)


@router.get("/{session_id}/export")
async def export_session(session_id: PathId, service: TheService, client: ChatClient) -> Response:
    """The session as a file of its platform: SillyTavern's JSONL, RisuAI's JSON."""
    async with service.database.read(snapshot=True) as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client))
        name, content = await chat_file(connection, chat)
    kind = "application/jsonl" if name.endswith(".jsonl") else "application/json"
    named = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(content, media_type=kind, headers={"content-disposition": named})


@router.get("/{session_id}/messages")
async def list_messages(
    session_id: PathId,
    service: TheService,
    client: ChatClient,
    before: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES)] = MAX_MESSAGES,
) -> MessageList:
    """The last messages, oldest first; ``next`` of the answer is the ``before`` of older ones."""
    async with service.database.read() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client))
    if chat.turn_id is not None and not chat.busy(time.time()):
        await service.turns.log.recover(chat.id)
    async with service.database.read() as connection:
        lines = await read_lines(connection, chat.id, limit=limit, before=before)
    older = lines[0].position if len(lines) == limit else None
    return MessageList(data=[MessageOut.of(line) for line in lines], next=older)


@router.post("/{session_id}/messages", response_model=TurnOut, responses=STREAMED)
async def say(session_id: PathId, body: MessageIn, caller: TheCaller) -> TurnOut | Response:
    """Send a message and get the reply."""
    given = body.content if isinstance(body.content, str) else [part.model_dump() for part in body.content]
    message = new_message(ChatMessageIn(role="user", content=given))
    if not message.content and not message.metadata:
        return await _turn(caller, session_id, body, "normal", empty=True)
    return await _turn(caller, session_id, body, "normal", messages=[message], commands=body.commands)


@router.post("/{session_id}/continue", response_model=TurnOut, responses=STREAMED)
async def continue_reply(session_id: PathId, body: ContinueIn, caller: TheCaller) -> TurnOut | Response:
    """Go on with the last message."""
    messages = [NewMessage(role="user", content=body.content)] if body.content else []
    return await _turn(caller, session_id, body, "continue", messages=messages)


@router.post("/{session_id}/quiet", response_model=TurnOut, responses=STREAMED)
async def quiet(session_id: PathId, body: QuietIn, caller: TheCaller) -> TurnOut | Response:
    """Ask something outside the chat; the answer is not stored."""
    return await _turn(caller, session_id, body, "quiet", prompt=body.prompt, quiet=body.chosen)


@router.post("/{session_id}/triggers")
async def run_trigger(session_id: PathId, body: TriggerIn, caller: TheCaller) -> OperationOut:
    """Run the manual triggers of that name: RisuAI's characters and modules have them."""
    return await _operation(caller, session_id, body, "trigger", element=body.element)


@router.post("/{session_id}/buttons")
async def press_button(session_id: PathId, body: ButtonIn, caller: TheCaller) -> OperationOut:
    """Press a button that a Lua script of a RisuAI character handles (``onButtonClick``)."""
    return await _operation(caller, session_id, body, "button")


@router.post("/{session_id}/{kind}", response_model=TurnOut, responses=STREAMED)
async def turn(
    session_id: PathId,
    kind: Literal["generate", "regenerate", "swipe", "impersonate"],
    body: TurnIn,
    caller: TheCaller,
) -> TurnOut | Response:
    """Ask for a reply to the chat as it is, replace the last one, add another, or write for the user."""
    return await _turn(caller, session_id, body, "normal" if kind == "generate" else kind)


@router.post("/{session_id}/actions/branch", status_code=201)
async def branch(session_id: PathId, body: BranchIn, service: TheService, client: ChatClient) -> SessionOut:
    """Start another session with everything up to a message."""
    external_id = body.session or new_id()
    chat = await branch_chat(service.database, client, session_id, body.message_id, external_id, marked=True)
    return SessionOut.of(chat, time.time())


@router.patch("/{session_id}/messages/{message_id}")
async def edit(
    session_id: PathId, message_id: PathId, body: MessagePatch, service: TheService, client: ChatClient
) -> MessageOut:
    """Change the text of a message, or hide it from prompts."""
    if body.content is None and body.hidden is None:
        raise ServiceError(422, "pass a content, or hidden", code="invalid_request", param="content")
    change = LineChange(content=body.content, hidden=body.hidden)
    return await _change_message(service, client, session_id, message_id, change)


@router.delete("/{session_id}/messages/{message_id}", status_code=204)
async def delete_message(
    session_id: PathId, message_id: PathId, service: TheService, client: ChatClient, following: bool = False
) -> Response:
    """Remove a message; with ``following``, also everything after it."""
    await remove_messages(service.database, client, session_id, message_id, following=following)
    return Response(status_code=204)


@router.put("/{session_id}/messages/{message_id}/swipe")
async def choose_swipe(
    session_id: PathId, message_id: PathId, body: SwipeIn, service: TheService, client: ChatClient
) -> MessageOut:
    """Show another swipe of a message."""
    return await _change_message(service, client, session_id, message_id, LineChange(swipe=body.swipe))


@router.delete("/{session_id}/messages/{message_id}/swipes/{swipe}")
async def delete_swipe(
    session_id: PathId,
    message_id: PathId,
    swipe: Annotated[int, Path(ge=0, le=100_000)],
    service: TheService,
    client: ChatClient,
) -> MessageOut:
    """Remove one of the replies to a message."""
    return await _change_message(service, client, session_id, message_id, LineChange(removed_swipe=swipe))


async def _prepare(service: Service, client: Client, session_id: str) -> None:
    """Parse what a session uses before a transaction changes it."""
    async with service.database.read() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(client))
    await service.library.prepare(service.database, chat.selection)


async def _change_message(
    service: Service, client: Client, session_id: str, message_id: str, change: LineChange
) -> MessageOut:
    await _prepare(service, client, session_id)
    rewrite = service.turns.log.sessions.rewrite
    return MessageOut.of(await change_message(service.database, client, session_id, message_id, change, rewrite))


async def _operation(
    caller: Caller, session_id: str, body: TriggerIn | ButtonIn, kind: OperationKind, *, element: str = ""
) -> OperationOut:
    service = caller.service
    wanted = await _turn_request(caller, session_id, kind, body.answers, prompt=body.name, element=element)
    listener = ReplyListener(streaming=False)
    turn = service.turns.start(wanted, listener)
    outcome = await until_done(caller.request, turn, listener)
    async with service.database.read() as connection:
        chat = await chats.get_chat(connection, session_id)
        lines = await read_lines(connection, session_id)
    return OperationOut.of(outcome, chat, lines)


class _Given(TypedDict, total=False):
    """Of a request for a turn, what only some have."""

    messages: Sequence[NewMessage]
    prompt: str
    quiet: JsonObject
    empty: bool
    commands: bool
    element: str


async def _turn(
    caller: Caller, session_id: str, body: MessageIn | TurnIn, kind: TurnKind, **given: Unpack[_Given]
) -> TurnOut | Response:
    wanted = await _turn_request(caller, session_id, kind, body.answers, **given)
    wanted = replace(wanted, speaker=body.speaker, options=storable_json(body.options))
    return await answer(caller.request, caller.service, wanted, stream=body.stream, explain=body.explain)


async def _turn_request(
    caller: Caller, session_id: str, kind: TurnKind, answers: Sequence[str], **given: Unpack[_Given]
) -> TurnRequest:
    logs.session_id.set(session_id)
    async with caller.service.database.read() as connection:
        chat = await chats.get_chat(connection, session_id, owner=owned_by(caller.client))
    return TurnRequest(
        owner=chat.owner,
        payer=caller.client,
        selection=Selection(platform=chat.selection.platform),
        chat_id=chat.id,
        kind=kind,
        answers=answers,
        idempotency_key=caller.idempotency_key,
        **given,
    )


def _place(before: str | None) -> tuple[float, str] | None:
    """Return where a page begins, from the ``next`` of the previous page."""
    if before is None:
        return None
    updated_at, _, chat_id = before.partition(":")
    try:
        place = float(updated_at)
    except ValueError:
        place = math.nan
    if not math.isfinite(place):
        raise ServiceError(422, "before must be the next of an earlier page", code="invalid_request", param="before")
    return place, chat_id


def _refuse_busy(busy: bool) -> None:
    if busy:
        raise ServiceError(409, "a turn of this session is running", code="session_busy", retry_after=1)
