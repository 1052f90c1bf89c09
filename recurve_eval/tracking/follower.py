"""The one writer between a ledger and its tracker: follows the ledger, sends what the tracker lacks.

A tracker that needs time runs in a process of its own (``python -m recurve_eval.tracking.follower RUN_DIR``),
so that no cell ever waits for it. The follower is crash-only: after any error of the tracker it waits,
starts itself anew and sends what is missing, because client libraries keep broken connections.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, cast

from recurve_eval.appendlog import FileLock, complete_lines, utc_now
from recurve_eval.errors import ConfigError, Drift, InfraError, RunLocked
from recurve_eval.ledger import RESULTS, id_of_line, open_line, run_owner, sealed_lines
from recurve_eval.ports import Publishing, Tracker
from recurve_eval.tracking.study import Study, read_plan

SPEC = "tracking.json"
STATUS = "mirror.json"
LOG = "mirror.log"
LOCK = "mirror.lock"
ANALYSIS = "analysis"
POLL_S = 0.2
BATCH = 20  # rows between two notes of progress
GIVE_UP = 5  # failures in a row after which a follower without a host ends


def load_tracker(run_dir: Path) -> Tracker:
    """The tracker that ``tracking.json`` names: ``{"target": "package.module.Class", "options": {...}}``."""
    path = Path(run_dir) / SPEC
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
        module, _, name = spec["target"].rpartition(".")
        return cast(Tracker, getattr(import_module(module), name)(**spec["options"]))
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise ConfigError(f"{path} does not name a tracker: {error}") from error


def read_status(run_dir: Path) -> Mapping[str, Any]:
    """``mirror.json``: ``state``, ``mirrored`` (cells), ``offset`` (ledger bytes), ``last_error``; or nothing yet."""
    try:
        status = json.loads((Path(run_dir) / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def mirror(run_dir: Path, tracker: Tracker) -> int:
    """Send what the tracker lacks, rows and analysis, in the foreground; returns how many cells that were.

    Raises RunLocked while a follower is at work, and whatever the tracker raises.
    """
    with FileLock(run_dir, LOCK):
        return _Mirror(run_dir, tracker).follow(lambda _: True)


def publish(run_dir: Path, tracker: Tracker) -> bool:
    """Log the analysis of a run directory to its tracker, without asking for its cells; whether there was a place to.

    Raises RunLocked while a follower is at work, and whatever the tracker raises.
    """
    if not isinstance(tracker, Publishing):
        return False
    with FileLock(run_dir, LOCK):
        study = Study(run_dir, read_plan(run_dir))
        tracker.open_study(run_dir, study.plan)
        tracker.publish(Path(run_dir) / ANALYSIS)
        complete = sum(1 for _ in sealed_lines(run_dir)) >= study.cells
        tracker.close("FINISHED" if complete else "KILLED")
    return True


class Follower:
    """A host's hold on its follower. A tracker that needs no process is followed by a thread."""

    def __init__(self, run_dir: Path, tracker: Tracker) -> None:
        self.run_dir = Path(run_dir)
        self.tracker = tracker
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._told = threading.Event()

    @classmethod
    def start(cls, run_dir: Path) -> Follower:
        """Begin to mirror as ``tracking.json`` says. Raises ConfigError when that names no tracker."""
        follower = cls(run_dir, load_tracker(run_dir))
        placement = getattr(follower.tracker, "placement", "process")
        if placement != "nowhere":
            (follower.run_dir / STATUS).unlink(missing_ok=True)
        if placement == "thread":
            follower._thread = threading.Thread(target=follower._follow_in_thread, name="mirror", daemon=True)
            follower._thread.start()
        elif placement == "process":
            follower._process = _spawn(follower.run_dir)
        return follower

    def drain(self, timeout_s: float) -> bool:
        """Wait until every row sealed so far is mirrored; False when that did not happen in time."""
        if not self._working:
            return True
        target, deadline = _complete_size(self.run_dir / RESULTS), time.monotonic() + timeout_s
        while True:
            alive = self._alive()
            if read_status(self.run_dir).get("offset", 0) >= target:
                return True
            if not alive or time.monotonic() >= deadline:
                return False
            time.sleep(0.02)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Let the follower finish what is sealed and end; kill it after ``timeout_s``. True when it ended by itself."""
        self._told.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        if self._process is None:
            return True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def _working(self) -> bool:
        return self._process is not None or self._thread is not None

    def _alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._thread is not None and self._thread.is_alive()

    def _follow_in_thread(self) -> None:
        try:
            with FileLock(self.run_dir, LOCK):
                _Mirror(self.run_dir, self.tracker).follow(self._told.wait)
        except Exception as error:  # noqa: BLE001 - as in a process: the cells go on
            _note_error(None, self.run_dir, "failed", error)


class _Mirror:
    def __init__(self, run_dir: Path, tracker: Tracker) -> None:
        self._run_dir, self._tracker = Path(run_dir), tracker
        self._study = Study(run_dir, read_plan(run_dir))
        self._offset = 0
        self._held: set[str] = set()
        self.sent = 0

    def follow(self, told: Callable[[float], bool]) -> int:
        """Mirror until ``told(seconds)``, which waits, says to end and nothing is left; returns cells sent."""
        self._tracker.open_study(self._run_dir, self._study.plan)
        self._held = set(self._tracker.mirrored())
        ending = False
        while True:
            news = self._catch_up()
            self.note("following")
            if ending and not news:
                break
            ending = told(0.0 if news else POLL_S)
        self._publish()
        complete = not self._study.cells or len(self._held) >= self._study.cells
        self._tracker.close("FINISHED" if complete else "KILLED")
        self.note("done")
        return self.sent

    def _publish(self) -> None:
        analysis = self._run_dir / ANALYSIS
        if isinstance(self._tracker, Publishing) and (analysis / "summary.json").is_file():
            self._tracker.publish(analysis)

    def note(self, state: str, error: str | None = None) -> None:
        """Write ``mirror.json``; after an error nothing is claimed to be mirrored."""
        note = {
            "state": state, "mirrored": len(self._held), "offset": 0 if error else self._offset,
            "last_error": error, "pid": os.getpid(), "at": utc_now(),
        }  # fmt: skip
        _write_status(self._run_dir, note)

    def _catch_up(self) -> bool:
        before = self._offset
        for end, batch in self._batches():
            self._tracker.mirror(batch)
            self._held.update(row["identity"]["cell_id"] for row in batch)
            self.sent += len(batch)
            self._offset = end
            self.note("following")
        return self._offset > before

    def _batches(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        path, end, batch = self._run_dir / RESULTS, self._offset, list[dict[str, Any]]()
        broken: str | None = None
        for line in complete_lines(path, self._offset):
            if broken is not None:
                raise Drift(broken)
            row = None if id_of_line(line) in self._held else open_line(line[:-1])
            if row is None and id_of_line(line) not in self._held:
                broken = f"{path} byte {end}: the row does not match its seal"
                continue
            end += len(line)
            if row is not None:
                batch.append(row)
            if len(batch) >= BATCH:
                yield end, batch
                batch = []
        if end > self._offset:
            yield end, batch


class _Host:
    """Whether whoever wanted this process still does: a pipe on stdin, the lock on the run directory."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        try:
            self._piped = stat.S_ISFIFO(os.fstat(0).st_mode)
        except OSError:
            self._piped = False
        self._owner_seen = False

    def gone(self, wait_s: float) -> bool:
        if self._piped:
            ready, _, _ = select.select([0], [], [], wait_s)
            if ready and not os.read(0, 4096):
                return True
        else:
            time.sleep(wait_s)
        owned = run_owner(self._run_dir) is not None
        self._owner_seen = self._owner_seen or owned
        return not owned and (self._owner_seen or not self._piped)


def main(run_dir: Path, failures: int = 0) -> int:
    """Follow ``run_dir`` until its host is gone and the ledger is drained; exit code."""
    os.setpriority(os.PRIO_PROCESS, 0, 5)  # the cells come first
    host = _Host(run_dir)
    lock = FileLock(run_dir, LOCK)
    if not _acquired(lock, host):
        return 0
    work: _Mirror | None = None
    try:
        work = _Mirror(run_dir, load_tracker(run_dir))
        work.follow(host.gone)
        return 0
    except Drift as error:
        _report(work, run_dir, "failed", error)
        return Drift.exit_code
    except Exception as error:  # noqa: BLE001 - whatever a tracker's client raises, the cells go on
        _report(work, run_dir, "retrying", error)
    failures = 1 if work is not None and work.sent else failures + 1
    if host.gone(0.0) and failures > GIVE_UP:
        return InfraError.exit_code
    lock.release()
    _back_off(host, min(30.0, 0.25 * 2**failures))
    return _start_anew(run_dir, failures)


def _acquired(lock: FileLock, host: _Host) -> bool:
    while True:
        try:
            lock.acquire()
            return True
        except RunLocked:  # the follower of an earlier, dead host is still draining
            if host.gone(POLL_S):
                return False


def _start_anew(run_dir: Path, failures: int) -> NoReturn:
    os.execv(sys.executable, [sys.executable, "-m", "recurve_eval.tracking.follower", str(run_dir), str(failures)])


def _back_off(host: _Host, seconds: float) -> None:
    if host.gone(seconds):
        time.sleep(min(seconds, 2.0))


def _report(work: _Mirror | None, run_dir: Path, state: str, error: Exception) -> None:
    message = _note_error(work, run_dir, state, error)
    print(f"{utc_now()} {state}: {message}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is mirror.log


def _note_error(work: _Mirror | None, run_dir: Path, state: str, error: Exception) -> str:
    message = f"{type(error).__name__}: {str(error)[:500]}"
    with contextlib.suppress(OSError):
        if work is not None:
            work.note(state, message)
        else:
            _write_status(run_dir, {"state": state, "mirrored": 0, "offset": 0, "last_error": message, "at": utc_now()})
    return message


def _write_status(run_dir: Path, note: Mapping[str, Any]) -> None:
    path = Path(run_dir) / STATUS
    fresh = path.with_suffix(".json.new")
    fresh.write_text(json.dumps(note), encoding="utf-8")
    fresh.replace(path)


def _spawn(run_dir: Path) -> subprocess.Popen[bytes]:
    search = os.pathsep.join(path for path in sys.path if path)
    package_root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package_root, search)))}
    command = [sys.executable, "-m", "recurve_eval.tracking.follower", str(run_dir)]
    with (run_dir / LOG).open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )


def _complete_size(path: Path) -> int:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            tail_from = max(0, size - (1 << 20))
            file.seek(tail_from)
            return tail_from + file.read().rfind(b"\n") + 1
    except OSError:
        return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
