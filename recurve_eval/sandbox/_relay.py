"""Runs inside a sandbox as a script, never imported: a loopback port that leads to the proxy's socket, then a command.

Usage: ``_relay.py SOCKET COMMAND...``. The command takes this process's place; a process of its own serves the port and
ends with the sandbox. The port is the one that the environment's HTTP_PROXY names.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass


def serve(near: socket.socket, path: str) -> None:
    far = socket.socket(socket.AF_UNIX)
    try:
        far.connect(path)
        back = threading.Thread(target=pump, args=(far, near), daemon=True)
        back.start()
        pump(near, far)
        back.join()
    except OSError:
        pass
    finally:
        far.close()
        near.close()


def detached(server: socket.socket, path: str) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    while True:
        near = server.accept()[0]
        threading.Thread(target=serve, args=(near, path), daemon=True).start()


def main() -> None:
    path, command = sys.argv[1], sys.argv[2:]
    port = int(os.environ["HTTP_PROXY"].rsplit(":", 1)[1])
    server = socket.create_server(("127.0.0.1", port), backlog=64)
    child = os.fork()
    if child == 0:
        if os.fork() == 0:  # no child of the command's, which might wait for all of its own
            detached(server, path)
        os._exit(0)
    os.waitpid(child, 0)
    server.close()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
