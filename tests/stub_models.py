"""A small model server for tests: the streaming messages API, the responses API and chat completions, with faults.

It plays one coding turn: first a tool call that writes ``solution.py``, then, once a tool result has come back, a last
word. ``faults`` are used up one request each: ``429``, ``529``, ``drop`` (the connection closes in the middle of the
stream), ``truncate`` (the stream ends in the middle of a JSON value), ``hang``.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SOLUTION = "def answer():\n    return 42\n"
INPUT, CACHED, OUTPUT = 100, 40, 20  # tokens of each call: not cached, read from a cache, put out


class Stub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, faults: list[str], served: str, turns: int, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), Handler)
        self.faults, self.served, self.turns = list(faults), served, turns
        self.calls: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.headers_seen: list[dict[str, str]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no concern of a test."""


class Handler(BaseHTTPRequestHandler):
    server: Stub
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._whole(200, b"")

    def do_GET(self) -> None:
        self._whole(404, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        answer = next((a for end, a in APIS.items() if self.path.split("?")[0].endswith(end)), None)
        if answer is None:
            self._whole(404, b"{}")
            return
        with self.server.lock:
            self.server.headers_seen.append({k.lower(): v for k, v in self.headers.items()})
            fault = self.server.faults.pop(0) if self.server.faults else ""
            if fault.isdigit():
                self.server.refused.append(fault)
            else:
                self.server.calls.append({"path": self.path, "fault": fault, "body": body})
        if fault.isdigit():
            kind = "rate_limit_error" if fault == "429" else "overloaded_error"
            text = {"type": "error", "error": {"type": kind, "message": kind, "code": kind}}
            self._whole(int(fault), json.dumps(text).encode())
            return
        if fault == "hang":
            time.sleep(30)
        answer(self, body, fault)

    def _whole(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: list[dict[str, Any] | str], fault: str, *, named: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        lines = []
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            name = f"event: {event['type']}\n" if named and isinstance(event, dict) else ""
            lines.append(f"{name}data: {text}\n\n".encode())
        if fault in ("drop", "truncate"):
            lines = lines[: max(1, len(lines) // 2)]
            lines[-1] = lines[-1][: len(lines[-1]) // 2] if fault == "truncate" else lines[-1]
        self.wfile.write(b"".join(lines))
        self.wfile.flush()
        self.close_connection = True


def _writes(stub: Stub, results: int) -> bool:
    return results < stub.turns


def _messages(self: Handler, body: dict[str, Any], fault: str) -> None:
    results = sum(
        block.get("type") == "tool_result"
        for message in body["messages"] if isinstance(message["content"], list)
        for block in message["content"]
    )  # fmt: skip
    usage = {
        "input_tokens": INPUT,
        "cache_read_input_tokens": CACHED,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    start = {"id": f"msg_{results}", "type": "message", "role": "assistant", "model": self.server.served, "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    tools = {t["name"] for t in body.get("tools", [])}
    if _writes(self.server, results) and tools & {"Write", "write_file"}:
        name = "Write" if "Write" in tools else "write_file"
        path = "file_path" if name == "Write" else "path"
        where = f"{_cwd(body)}/solution.py" if name == "Write" else "solution.py"
        call = {path: where, "content": SOLUTION + f"# {results}\n" * results}
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{results}", "name": name, "input": {}}
        delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": json.dumps(call)}
        stop = "tool_use"
    else:
        block, stop = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": "Done."}
    if not body.get("stream"):
        whole = block | ({"input": json.loads(delta["partial_json"])} if stop == "tool_use" else {"text": "Done."})
        done = start | {"content": [whole], "stop_reason": stop, "usage": usage | {"output_tokens": OUTPUT}}
        text = json.dumps(done).encode()
        self._whole(200, text[: len(text) // 2] if fault == "truncate" else text)
        return
    events: list[dict[str, Any] | str] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": OUTPUT},
        },
        {"type": "message_stop"},
    ]
    self._stream(events, fault, named=True)


def _cwd(body: dict[str, Any]) -> str:
    text = json.dumps(body.get("system", "")) + json.dumps(body["messages"])
    for line in text.replace("\\n", "\n").splitlines():
        if "orking directory:" in line:
            return line.split("orking directory:")[1].strip().split('"')[0].strip()
    return "."


def _responses(self: Handler, body: dict[str, Any], fault: str) -> None:
    items = body["input"] if isinstance(body["input"], list) else []
    results = sum(str(i.get("type", "")).endswith("_output") for i in items)
    tools = {t.get("name") or t.get("type") for t in body.get("tools", [])}
    write = f"cat > solution.py <<'EOF'\n{SOLUTION}{f'# {results}' if results else ''}\nEOF\n"
    if _writes(self.server, results):
        if "exec_command" in tools:
            name, arguments = "exec_command", {"cmd": write}
        else:
            name, arguments = "shell", {"command": ["bash", "-lc", write]}
        item: dict[str, Any] = {"type": "function_call", "id": f"fc_{results}", "call_id": f"call_{results}", "name": name,
                                "arguments": json.dumps(arguments), "status": "completed"}  # fmt: skip
    else:
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{results}",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    usage = {"input_tokens": INPUT + CACHED, "input_tokens_details": {"cached_tokens": CACHED}, "output_tokens": OUTPUT,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": INPUT + CACHED + OUTPUT}  # fmt: skip
    response = {
        "id": f"resp_{results}",
        "object": "response",
        "status": "in_progress",
        "model": self.server.served,
        "output": [],
    }
    events: list[dict[str, Any] | str] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": response | {"status": "completed", "output": [item], "usage": usage},
        },
    ]
    self._stream(events, fault, named=True)


def _completions(self: Handler, body: dict[str, Any], fault: str) -> None:
    results = sum(m["role"] == "tool" for m in body["messages"])
    tools = {t["function"]["name"] for t in body.get("tools", [])}
    message: dict[str, Any] = {"role": "assistant", "content": "Done."}
    if _writes(self.server, results) and "write_file" in tools:
        call = {"name": "write_file", "arguments": json.dumps({"path": "solution.py", "content": SOLUTION})}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{results}", "type": "function", "function": call}],
        }
    usage = {"prompt_tokens": INPUT + CACHED, "completion_tokens": OUTPUT, "total_tokens": INPUT + CACHED + OUTPUT,
             "prompt_tokens_details": {"cached_tokens": CACHED}}  # fmt: skip
    done = {"id": f"cc_{results}", "object": "chat.completion", "created": 1, "model": self.server.served, "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}]}  # fmt: skip
    text = json.dumps(done).encode()
    if fault == "drop":
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True
        return
    self._whole(200, text[: len(text) // 2] if fault == "truncate" else text)


APIS = {"/messages": _messages, "/responses": _responses, "/chat/completions": _completions}


@contextmanager
def stub(*faults: str, served: str = "stub-model-1", turns: int = 1, host: str = "127.0.0.1") -> Iterator[Stub]:
    """A server on loopback; ``turns`` tool calls come before the last word."""
    server = Stub(list(faults), served, turns, host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
