"""A small real HTTP server that answers as it is told, and a verdict as it is on the wire."""

import copy
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = {
    "class": "hallucination",
    "justification": "The knowledge says 25 metres.",
    "probability": 0.97,
    "threshold": 0.5,
    "label_mass": 0.99,
    "evidence": "given",
    "model": {
        "id": "embedded",
        "revision": "0123abcd",
        "contract": "4567ef01",
        "engine": "fake",
        "trained": True,
    },
    "usage": {"input_tokens": 187, "output_tokens": 21, "cached_tokens": 128},
    "timings_ms": {"queue": 0.2, "inference": 412, "total": 414.8},
    "request_id": "r1",
}

INFO = {
    "model": ANSWER["model"],
    "base_model": "acme/base",
    "weights_sha256": "ab" * 32,
    "contract_version": 1,
    "contract": "4567ef01",
    "calibration": {"temperature": 1.5, "threshold": 0.5},
    "engine": {"name": "fake", "version": "1", "device": "none", "dtype": "none"},
    "hardware": {"processor": "Made-up 3000", "num_cores": 2, "accelerator": None},
}


def problem_json(status, slug, detail="no", **members):
    """Return a problem of the service."""
    return {
        "type": f"urn:hallucination-detector:problem:{slug}",
        "title": slug.capitalize(),
        "status": status,
        "detail": detail,
        "request_id": "r2",
        **members,
    }


class StubService:
    """Answers ``POST /classify`` by ``reply(body) -> (status, headers, object or bytes)``.

    Attributes:
        bodies: What was posted, in order.
        headers: Of the requests, in order.
        reply: May be replaced; None as its result drops the connection.
        is_ready: What ``GET /readyz`` says.
        info: What ``GET /info`` says: (status, headers, object or bytes).
    """

    def __init__(self):
        """Listen on a free port."""
        self.bodies = []
        self.headers = []
        self.reply = lambda body: (200, {}, {**ANSWER, "justification": body["response"]})
        self.is_ready = True
        self.info = (200, {}, copy.deepcopy(INFO))
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def do_GET(self):
                if self.path == "/info":
                    self.send(*stub.info)
                elif stub.is_ready:
                    self.send(200, {}, {"status": "ready"})
                else:
                    self.send(503, {"Retry-After": "5"}, problem_json(503, "not-ready", "load: x"))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.bodies.append(body)
                stub.headers.append(dict(self.headers))
                answered = stub.reply(body)
                if answered is None:
                    self.close_connection = True
                else:
                    self.send(*answered)

            def send(self, status, headers, content):
                kind = "text/html"
                if not isinstance(content, bytes):
                    kind = "application/json" if status == 200 else "application/problem+json"
                    content = json.dumps(content).encode()
                self.send_response(status)
                headers = {"Content-Type": kind, "Content-Length": len(content), **headers}
                for name, value in headers.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(content)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128  # the default of 5 costs a second for every one above it

            def handle_error(self, request, client_address):
                pass  # a client that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def responses(self):
        """Return the responses that were posted, in order."""
        return [body["response"] for body in self.bodies]

    def close(self):
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
