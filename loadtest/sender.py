"""Sends requests from greenlets, one attempt each: a retry would hide what the load test is after.

Imported by the locustfile alone. Not here: what an answer means (``loadtest/checks.py``).
"""

from __future__ import annotations

import gevent
import httpx
from geventhttpclient import HTTPClient
from geventhttpclient.response import HTTPParseError

from client.wire import http_options
from loadtest.checks import Answer
from loadtest.workload import Request

USER_AGENT = "hallucination-detector-loadtest"

# More than are ever open at once: the pool of connections must not become a queue of its own.
_MAX_OPEN = 50_000
_CONNECT_TIMEOUT_S = 10.0


class NoAnswerError(Exception):
    """No whole answer came; the message says why, and holds no text of the request."""


class Sender:
    """Connections to one service."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float) -> None:
        """Connect to nothing yet.

        Args:
            url: Of the service, such as ``http://127.0.0.1:8000``.
            api_key: Sent as ``Authorization: Bearer``; None for none.
            timeout_s: For a whole answer, above 0.

        Raises:
            ValueError: The address or the key cannot be used.
        """
        options = http_options(url, api_key, USER_AGENT)
        self._timeout_s = timeout_s
        self._prefix = httpx.URL(options["base_url"]).path.rstrip("/")
        self._http = HTTPClient.from_url(
            options["base_url"],
            concurrency=_MAX_OPEN,
            headers=dict(options["headers"]),
            connection_timeout=min(timeout_s, _CONNECT_TIMEOUT_S),
            network_timeout=timeout_s,
        )

    def send(self, request: Request, request_id: str) -> Answer:
        """Send a request and return what came back.

        Raises:
            NoAnswerError: It was refused, reset, cut off, or not whole in time.
        """
        headers = {"Content-Type": request.content_type, "X-Request-ID": request_id}
        timeout = gevent.Timeout.start_new(self._timeout_s)
        try:
            response = self._http.request(
                "POST", f"{self._prefix}/{request.path}", request.body, headers
            )
            content = bytes(response.read())
            return Answer(response.status_code, httpx.Headers(list(response.items())), content)
        except gevent.Timeout as error:
            if error is not timeout:
                raise
            raise NoAnswerError(f"not within {self._timeout_s:g} s") from error
        except (OSError, HTTPParseError) as error:
            raise NoAnswerError(type(error).__name__) from error
        finally:
            timeout.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
