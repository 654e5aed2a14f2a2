"""Sends the prompts of a batch to a model, with rate limit, budget and retries."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol, Self, TypeVar

from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.batching._executors import Built, Chunk, Executor, Job, Results, encoded
from tavernkit.batching._sources import suggestion
from tavernkit.batching._tasks import BatchFormat, BatchRecord
from tavernkit.budget._estimator import count_tokens
from tavernkit.errors import ConfigError
from tavernkit.models import (
    ConnectionFailedError,
    HTTPError,
    Model,
    ModelError,
    ModelWrapper,
    ProviderError,
    Reply,
    Request,
    RequestTimeoutError,
    ScriptedModel,
    with_retries,
)
from tavernkit.models._factory import user_model
from tavernkit.models.errors import BudgetReachedError
from tavernkit.prompt._block import Message

T = TypeVar("T")

SCRIPTED: Final = "scripted"
NOT_ANSWERED: Final = frozenset((401, 402, 403, 404, 407, 408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses that say nothing about the prompt: the next run asks again. Others are the answer to this prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """The model that answers the prompts of a batch, and its limits. The key comes from the environment."""

    model: str
    """``provider:name``, as for ``tavernkit.model()``."""
    base_url: str | None = None
    """Another server that speaks the provider's protocol, such as vLLM or llama.cpp with ``openai:``."""
    options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Options of requests that override the preset's, in OpenAI's names."""
    concurrency: int = 16
    """Requests at the same time; on a cluster, per worker."""
    requests_per_second: float | None = None
    """How many requests per second all workers together may send, including retries."""
    retries: int = 5
    """How often a request is retried if the server fails or asks to wait."""
    timeout: float | None = None
    """Seconds to wait for a reply; None for the model's default."""
    max_requests: int | None = None
    """Stop after this many requests."""
    max_tokens: int | None = None
    """Stop when prompts and replies have used this many tokens."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "requests_per_second", "timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be more than 0", code="INVALID_GENERATE")

    @classmethod
    def read(cls, data: Mapping[str, object], **given: object) -> Self:
        """Read the table ``generate`` of a grid; given options that are not None override it.

        Args:
            data: The table.
            given: Options by name.

        Raises:
            ConfigError: An option is unknown or wrong, or there is no model.
        """
        known = {each.name: _KINDS[each.name] for each in dataclasses.fields(cls)}
        fields: dict[str, object] = {}
        for name, value in {**data, **{name: value for name, value in given.items() if value is not None}}.items():
            if name not in known:
                raise ConfigError(f"generate has no {name!r}{suggestion(name, list(known))}", code="INVALID_GENERATE")
            wanted, fits = known[name]
            if isinstance(value, bool) or not fits(value):
                raise ConfigError(f"generate: {name} must be {wanted}, not {value!r}", code="INVALID_GENERATE")
            fields[name] = freeze_object(value) if is_mapping(value) else value
        if not fields.get("model"):
            raise ConfigError("say who answers: --model provider:name, or model in [generate]", code="MODEL_REQUIRED")
        return cls(**fields)  # pyright: ignore[reportArgumentType]  # checked above

    def salt(self) -> JsonObject:
        """Return the options that distinguish replies; the address is not one of them, because servers move."""
        return {"model": self.model, "options": thaw_object(self.options)}

    def connect(self) -> Model:
        """Make the model, without retries."""
        if self.model == SCRIPTED:
            return ScriptedModel("A reply.", repeat_last=True)
        return user_model(self.model, base_url=self.base_url, timeout=self.timeout, max_retries=0)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_KINDS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    **dict.fromkeys(("model", "base_url"), ("a text", _is_text)),
    **dict.fromkeys(("requests_per_second", "timeout"), ("a number", _is_number)),
    **dict.fromkeys(("concurrency", "retries", "max_requests", "max_tokens"), ("a whole number", _is_whole)),
    "options": ("a table", is_mapping),
}


class Budget:
    """How many requests and tokens are left; safe to share between threads."""

    def __init__(self, requests: int | None = None, tokens: int | None = None) -> None:
        self._requests = requests
        self._tokens = tokens
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Use up one request; return False if no requests or tokens are left."""
        with self._lock:
            if (self._tokens is not None and self._tokens <= 0) or self._requests == 0:
                return False
            if self._requests is not None:
                self._requests -= 1
            return True

    def spend(self, tokens: int) -> None:
        """Count tokens."""
        with self._lock:
            if self._tokens is not None:
                self._tokens -= tokens


class Meter:
    """Decides when the next request may be sent, within rate and budget; safe to share between threads."""

    def __init__(
        self, options: GenerateOptions, budget: Budget | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make a meter.

        Args:
            options: The rate and, without ``budget``, the total budget.
            budget: The total budget, if several meters share it.
            clock: Returns seconds.
        """
        self._interval = 1 / options.requests_per_second if options.requests_per_second else 0.0
        self._budget = budget if budget is not None else Budget(options.max_requests, options.max_tokens)
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def take(self) -> float | None:
        """Reserve a request: return how many seconds to wait first, or None if the budget is used up."""
        if not self._budget.take():
            return None
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now)
            seconds = self._next - now
            self._next += self._interval
            return seconds

    def spend(self, tokens: int) -> None:
        """Count tokens: those of a prompt when it is sent, then the correction when the reply arrives."""
        self._budget.spend(tokens)


class SharedMeter(Protocol):
    """A meter shared by all workers."""

    async def take(self) -> float | None:
        """Reserve a request; see ``Meter.take()``."""
        ...

    async def spend(self, tokens: int) -> None:
        """Count tokens."""
        ...


class LocalMeter:
    """A meter in this process."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    async def take(self) -> float | None:
        """Reserve a request."""
        return self._meter.take()

    async def spend(self, tokens: int) -> None:
        """Count tokens."""
        self._meter.spend(tokens)


_latency: ContextVar[float] = ContextVar("latency")


class _Metered(ModelWrapper):
    """Asks the meter before each request, including retries."""

    def __init__(self, inner: Model, meter: SharedMeter, *, counting: bool) -> None:
        super().__init__(inner)
        self._meter = meter
        self._counting = counting

    async def send_whole(self, request: Request) -> Reply:
        seconds = await self._meter.take()
        if seconds is None:
            raise BudgetReachedError("the budget of requests or tokens is used up")
        if seconds > 0:
            await asyncio.sleep(seconds)
        started = time.monotonic()
        try:
            reply = await self.inner.send(request)
        finally:
            _latency.set(time.monotonic() - started)
        if self._counting:
            await self._meter.spend(reply.usage.total_tokens or _estimate(request, reply))
        return reply


def _estimate(request: Request, reply: Reply) -> int:
    """Estimate the tokens that a provider did not report."""
    said = [
        message.content if isinstance(message, Message) else str(message.get("content") or "")
        for message in request.messages or ()
    ]
    return sum(map(count_tokens, (request.prompt or "", *said, reply.text)))


def metered(options: GenerateOptions, meter: SharedMeter, *, counting: bool = True) -> Model:
    """Make a model that asks a meter before each request, and retries failed ones.

    Args:
        options: Which model.
        meter: The meter.
        counting: Count the tokens of replies; otherwise the caller does it.
    """
    return with_retries(_Metered(options.connect(), meter, counting=counting), retries=options.retries)


class Answerer:
    """Sends prompts to a model and makes records of the replies."""

    def __init__(self, options: GenerateOptions, meter: SharedMeter, form: BatchFormat) -> None:
        self._options = options
        self._meter = meter
        self._form: BatchFormat = form
        self._model = metered(options, meter, counting=False)

    async def answer(self, built: Built) -> Built:
        """Ask the model. A record without a prompt is returned unchanged."""
        record, request = built.record, built.request
        assert record is not None
        if request is None:
            return encoded(record, None, self._form)
        prompt_tokens = record.tokens or 0
        await self._meter.spend(prompt_tokens)
        spent = 0
        try:
            reply = await self._model.send(request)
        except BudgetReachedError:
            return Built(None, None, out_of_budget=True)
        except ModelError as error:
            if _not_answered(error):
                return Built(None, None, unanswered=f"{type(error).__name__}: {error}")
            failure: JsonObject = {"type": type(error).__name__, "message": str(error)}
            return encoded(self._with_answer(record, error=failure), request, self._form)
        else:
            spent = reply.usage.total_tokens or prompt_tokens
            return encoded(self._with_answer(record, reply), request, self._form)
        finally:
            await self._meter.spend(spent - prompt_tokens)

    def _with_answer(
        self, record: BatchRecord, reply: Reply | None = None, error: JsonObject | None = None
    ) -> BatchRecord:
        return dataclasses.replace(
            record,
            model=self._options.model,
            error=error,
            reply=reply.to_dict() if reply is not None else None,
            finish_reason=reply.finish_reason if reply is not None else None,
            usage=reply.usage_object() if reply is not None else None,
            latency_ms=round(_latency.get(0.0) * 1000, 1),
        )

    async def aclose(self) -> None:
        """Close connections."""
        await self._model.aclose()


def _not_answered(error: ModelError) -> bool:
    """Return True if the error is not about the prompt, so that another run should ask again."""
    if isinstance(error, (HTTPError, ProviderError)):
        return error.status is None or error.status in NOT_ANSWERED
    return isinstance(error, (ConnectionFailedError, RequestTimeoutError))


def answering(executor: Executor, options: GenerateOptions, form: BatchFormat) -> Executor:
    """Let an executor build prompts, and send them from this process in order: common prefixes stay together.

    Args:
        executor: Builds the prompts.
        options: The model that answers.
        form: How records are encoded.
    """

    def run(job: Job, chunks: Iterator[Chunk]) -> Results:
        answerer = Answerer(options, LocalMeter(Meter(options)), form)
        with closing(executor(job, chunks)) as built:
            yield from concurrently(answerer.answer, built, options.concurrency, close=answerer.aclose)

    return run


def concurrently(
    work: Callable[[T], Coroutine[object, object, Built]],
    chunks: Iterable[Sequence[T]],
    concurrency: int,
    *,
    close: Callable[[], Coroutine[object, object, object]],
) -> Results:
    """Run asynchronous work in a separate thread, with limited concurrency; yield results as they arrive.

    Args:
        work: Processes one item.
        chunks: The items; the next chunk is taken when there is room for it.
        concurrency: How many items are processed at the same time.
        close: Closes resources of the work.
    """
    with _BackgroundLoop() as loop:
        pending: set[Future[Built]] = set()
        try:
            for chunk in chunks:
                for each in chunk:
                    if len(pending) >= concurrency:
                        yield _take(pending, wait_for_one=True)
                    pending.add(loop.submit(work(each)))
                yield _take(pending, wait_for_one=False)
            while pending:
                yield _take(pending, wait_for_one=True)
        finally:
            for future in pending:
                future.cancel()
            loop.submit(close()).result()


def _take(pending: set[Future[Built]], *, wait_for_one: bool) -> list[Built]:
    finished, _ = wait(pending, timeout=None if wait_for_one else 0, return_when=FIRST_COMPLETED)
    # An error ends the run, but replies that have arrived with it are paid for: they are returned first.
    arrived = {future for future in finished if future.exception() is None} or finished
    pending -= arrived
    return [future.result() for future in arrived]


class _BackgroundLoop:
    """An event loop in a separate thread, so that replies arrive while prompts are built."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, awaited: Coroutine[object, object, T]) -> Future[T]:
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(awaited, self._loop)
