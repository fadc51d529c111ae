"""HTTP from synchronous code: an event loop in a thread of its own, so that it also works where another loop runs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import select
import selectors
import socket
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval_healthcare.judge.backends.server_address import ServerAddress

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
_CONNECT = 10.0
"""Seconds for a connection to be made."""
_KEEP = 4.0
"""Seconds for which an unused connection is kept, fewer than the 5 after which vLLM's server closes it."""
_PIECE = 2**16
_AT_ONCE = 2
_UNTIL_AGAIN = 0.2  # seconds between two cancellations


@dataclass(frozen=True)
class Answer:
    """What a server sent."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Unanswered(Exception):
    """Nothing whole came back.

    Attributes:
        connected: Whether there was a connection at all.
        again: Whether another try may do better.
    """

    def __init__(self, message: str, connected: bool = True, again: bool = True) -> None:
        """Take what happened, in words without secrets."""
        super().__init__(message)
        self.connected, self.again = connected, again


class Gone(Exception):
    """No request will be answered any more."""


class _FewAtOnce(selectors.DefaultSelector):
    """Tells of a few connections at a time, so that what follows a reply is sent before many others are read.

    Requests that were sent together are answered together; if each step were done for all of them before the next step,
    none would be followed by another before all were read, and they would stay together for ever.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout)[:_AT_ONCE]


class HttpLoop:
    """A thread with an event loop and a client of one server; close it."""

    def __init__(self, address: ServerAddress) -> None:
        """Start the thread."""
        self._address = address
        self._proxy = address.proxy()
        self._client: aiohttp.ClientSession | None = None
        self.loop = asyncio.SelectorEventLoop(_FewAtOnce())
        self._thread = threading.Thread(target=self._work, name="judge-http", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    @property
    def alive(self) -> bool:
        """Whether the thread still works."""
        return self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop and wait for it; an interruption of the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what is left, close the connections and end the thread; again, do nothing."""
        if not self._thread.is_alive():
            return
        future = asyncio.run_coroutine_threadsafe(self._shut(), self.loop)
        try:
            future.result(10)
        except concurrent.futures.TimeoutError:
            pass
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)

    async def _shut(self) -> None:
        # Again and again: what is cancelled in the moment in which it gets its reply may go on to the next one.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_UNTIL_AGAIN)
        if self._client is not None:
            await self._client.close()

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        # Requests are limited by their workers; redirects and cookies have no place here.
        connector = _clean_connector()(
            limit=0, keepalive_timeout=_KEEP, resolver=_loopback_resolver() if self._address.near else None
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={**self._address.headers, "Accept-Encoding": "identity"},
            trust_env=False,
            read_bufsize=_PIECE,
        )

    async def send(
        self, method: str, url: str, data: bytes | None, timeout: float, most: int, name: str | None = None
    ) -> Answer:
        """Send one request and read all of the answer, whatever its status; redirects are answers.

        Args:
            method: `GET` or `POST`.
            url: Where.
            data: The body.
            timeout: Seconds for everything together.
            most: Bytes; a longer answer is not read.
            name: Sent as `X-Request-Id`.

        Raises:
            Unanswered: If no whole answer came back.
        """
        import aiohttp

        if self._client is None:
            self._client = self._open()
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, _CONNECT))
        try:
            async with self._client.request(
                method,
                url,
                data=data,
                timeout=limits,
                allow_redirects=False,
                proxy=self._proxy,
                headers={"X-Request-Id": name} if name else None,
            ) as response:
                return Answer(response.status, response.headers, await _read(response, most))
        except aiohttp.ClientSSLError as error:
            raise Unanswered(f"no trusted TLS connection ({_words(error)})", connected=False) from None
        except aiohttp.ClientConnectorDNSError:
            raise Unanswered("the host's name is not known", connected=False) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unanswered(f"no connection ({_words(error)})", connected=False) from None
        except asyncio.TimeoutError:
            raise Unanswered(f"no whole reply within {timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"the connection broke ({_words(error)})") from None


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    pieces, size = [], 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > most:
            response.close()
            raise Unanswered(f"a reply of more than {most // 10**6} MB, which was not read", again=False)
        pieces.append(piece)
    return b"".join(pieces)


def _words(error: Exception) -> str:
    """Say what happened without the error's own text, which may hold the URL with its secrets."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, OSError) and cause.errno and cause.strerror and "://" not in cause.strerror:
        return cause.strerror.lower()
    return type(error).__name__


def _clean_connector() -> type[aiohttp.TCPConnector]:
    """Return a connector that uses no connection again on which something has come that nobody asked for.

    It would be taken for the reply to the next request: a second copy of a reply would be a verdict on another answer.
    A connection that the server has closed looks the same, and is not used either.
    """
    import aiohttp

    class Clean(aiohttp.TCPConnector):
        async def connect(self, *arguments: Any, **options: Any) -> Any:
            while True:
                connection = await super().connect(*arguments, **options)
                protocol, transport = connection.protocol, connection.transport
                if protocol is None or transport is None:
                    return connection
                if not protocol.should_close and not _readable(transport.get_extra_info("socket")):
                    return connection
                connection.close()

    return Clean


def _readable(connection: Any) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _loopback_resolver() -> Any:
    """Return a resolver that knows `localhost` and nothing else: no name server decides where patients' texts go."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Loopback(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            pairs = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
            return [
                ResolveResult(
                    hostname=host, host=address, port=port, family=kind, proto=0, flags=int(socket.AI_NUMERICHOST)
                )
                for kind, address in pairs
                if family in (socket.AF_UNSPEC, kind)
            ]

        async def close(self) -> None:
            pass

    return Loopback()
