"""A world without a network in which every HTTP request still gets an answer: 404, at once.

For a task that asks for ``offline_404``, where the sandbox gives no network. Each command is started by a
small program of ours inside the sandbox, which answers on loopback and is named as the proxy for http and
https. A client that ignores proxies meets the sandbox's own wall instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recurve_eval.domain import JSON, Departure, Task
from recurve_eval.errors import SandboxError
from recurve_eval.ports import Command, Completed, Session

OFFLINE_404 = "offline_404"
_LOOK = "import shutil, sys; sys.exit(0 if shutil.which(sys.argv[1]) else 1)"
_ANSWERING = """\
import http.server, os, signal, subprocess, sys, threading


class NotFound(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = b"404: there is no network here\\n"
        self.send_response(404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_CONNECT = answer

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
proxy = "http://127.0.0.1:%d" % server.server_address[1]
names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
world = {k: v for k, v in os.environ.items() if k.lower() != "no_proxy"} | dict.fromkeys(names, proxy)
child = subprocess.Popen(sys.argv[1:], env=world)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
code = child.wait()
os._exit(code if code >= 0 else 128 - code)
"""


def answering(session: Session, task: Task, attested: Mapping[str, JSON]) -> Session:
    """The session as the task wants it. Where the sandbox has a network (an agent's API needs one) it is left."""
    wanted = task.network == OFFLINE_404 and attested.get("network") == "none"
    return _Answering(session) if wanted else session


class _Answering:
    """A session whose commands find their HTTP requests answered."""

    def __init__(self, inner: Session) -> None:
        self._inner = inner
        self.result_file = inner.result_file
        self._found: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, command: Command) -> Completed:
        self._look_for(command.argv[0])
        return self._inner.run(replace(command, argv=("{python}", "-I", "-S", "-c", _ANSWERING, *command.argv)))

    def _look_for(self, program: str) -> None:
        """A program that is not there is the harness's trouble, and is found before it could be started."""
        if program in self._found:
            return
        looked = self._inner.run(Command(("{python}", "-I", "-S", "-c", _LOOK, program)))
        if looked.exit_code == 1:
            raise SandboxError(f"the command was never executed: {program} is not in the sandbox")
        self._found.add(program)

    def read_result(self, max_bytes: int) -> bytes | None:
        return self._inner.read_result(max_bytes)

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> Departure:
        return self._inner.close()
