"""What holds a graded process, and the proof that nothing of it is left.

Three means, each probed at start and stated in the server's greeting: a user id per grading, a PID
namespace per grading (its init dies, everything in it dies: the kernel's guarantee), and the
subreaper, by which every orphan becomes the supervisor's child, so that "no child left" is proof.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import time
from typing import Any, Callable, NamedTuple

from . import forking, libc


class Means(NamedTuple):
    """Which means this server has. ``uid_base`` is None where graded processes keep the server's user."""

    uid_base: int | None
    pid_namespace: bool
    ipc_namespace: bool
    rejoins: bool

    def apart(self) -> bool:
        """Whether a graded process can neither signal nor name those of another grading, so that some may wait."""
        return self.uid_base is not None or self.pid_namespace

    def facts(self) -> dict[str, Any]:
        return {"uid_per_grading": self.uid_base is not None, "pid_namespace": self.pid_namespace,
                "ipc_namespace": self.ipc_namespace}  # fmt: skip


class Leftover(Exception):
    """Something of a grading is still there and could not be removed."""


def in_child(action: Callable[[], None]) -> bool:
    """Whether ``action`` succeeds in a forked child of ours."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def probe(uid_base: int | None) -> Means:
    def drop() -> None:
        become(uid_base or 0)
        open(os.__file__, "rb").close()
        os.listdir(os.path.dirname(os.__file__))

    uid_works = uid_base is not None and os.geteuid() == 0 and in_child(drop)
    namespace = in_child(lambda: libc.unshare(libc.CLONE_NEWPID))
    ipc = in_child(lambda: libc.unshare(libc.CLONE_NEWIPC))
    return Means(uid_base if uid_works else None, namespace, ipc, in_child(_leave_and_rejoin))


def _leave_and_rejoin() -> None:
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    libc.unshare(libc.CLONE_NEWPID)
    libc.setns(own, libc.CLONE_NEWPID)


def enter_user_namespace() -> None:
    """Without root, be privileged in a user namespace of our own, where the machine allows one."""
    if os.geteuid() == 0 or in_child(lambda: libc.unshare(libc.CLONE_NEWPID)):
        return
    uid, gid = os.geteuid(), os.getegid()
    if not in_child(lambda: libc.unshare(libc.CLONE_NEWUSER)):
        return
    libc.unshare(libc.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def unveil(keep: list[str]) -> None:
    """Make ``keep`` readable below a directory closed to others, by a private view of the mounts.

    An interpreter that is installed under a private home could otherwise not be used by a user id of
    its own. The rest of that home is gone from the view of this server and of what it grades.
    """
    closed = {closed for closed in map(_closed_ancestor, keep) if closed}
    if not closed or os.geteuid() != 0:
        return
    libc.unshare(libc.CLONE_NEWNS)
    libc.mount(None, "/", None, libc.MS_REC | libc.MS_PRIVATE)
    held = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in keep if _closed_ancestor(path)]
    for directory in sorted(closed):
        libc.mount("tmpfs", directory, "tmpfs", 0, "mode=755,size=1m")
    for path, fd in held:
        os.makedirs(path, mode=0o755, exist_ok=True)
        libc.mount("/proc/self/fd/%d" % fd, path, None, libc.MS_BIND | libc.MS_REC)
        libc.mount(None, path, None, libc.MS_BIND | libc.MS_REMOUNT | libc.MS_RDONLY)
        os.close(fd)


def _closed_ancestor(path: str) -> str | None:
    parts = os.path.abspath(path).split("/")
    for count in range(2, len(parts) + 1):
        ancestor = "/".join(parts[:count])
        if not os.stat(ancestor).st_mode & stat.S_IXOTH:
            return ancestor
    return None


def bequeath(limits: dict[str, int]) -> None:
    """Bind the server itself by what each graded process shall inherit, so that none has to ask for it."""
    os.umask(0o077)
    bounds = {"CORE": 0, "AS": limits["memory_mb"] << 20, "NOFILE": limits["open_files"]}
    for name, value in bounds.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    libc.no_new_privileges()


def limit_time(cpu_s: int) -> None:
    """Seconds of processor time for this process from its start."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))


def enter(uid: int | None, limits: dict[str, int]) -> None:
    """Turn this freshly forked child into a graded one. Order matters: limits, user, then no way back."""
    os.setsid()
    setrlimit, size = resource.setrlimit, limits["file_mb"] << 20
    setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if uid is not None:
        setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))
        become(uid)
    else:
        libc.drop_capabilities()
    libc.die_with_parent()
    libc.hide_memory()


def fork_in_namespace(means: Means, own_namespace: int | None) -> int:
    """Fork with the child as init of a new PID namespace where there is one."""
    if means.ipc_namespace:
        libc.unshare(libc.CLONE_NEWIPC)
    if not means.pid_namespace or own_namespace is None:
        return forking.fork()
    if not means.rejoins:
        return _fork_by_another()
    libc.unshare(libc.CLONE_NEWPID)
    pid = forking.fork()
    if pid != 0:
        libc.setns(own_namespace, libc.CLONE_NEWPID)
    return pid


def _fork_by_another() -> int:
    """Where we could not come back from a new namespace, a process that ends right away enters it for us.

    Its child becomes ours, the subreaper's. The child waits for our word, since what it asks of the
    kernel about its parent's death must be asked of us.
    """
    told, tell = os.pipe()
    wait, release = os.pipe()
    between = forking.fork()
    if between == 0:
        try:
            libc.unshare(libc.CLONE_NEWPID)
            pid = forking.fork()
            if pid != 0:
                os.write(tell, b"%d" % pid)
                os._exit(0)
        except BaseException:
            os._exit(1)
        os.read(wait, 1)
        return 0
    _, status = os.waitpid(between, 0)
    os.close(tell)
    pid = int(os.read(told, 32) or b"0")
    if status == 0:
        os.write(release, b"x")
    for fd in (told, wait, release):
        os.close(fd)
    if status != 0 or pid == 0:
        raise Leftover("no PID namespace could be made for a grading")
    return pid


def end_all(pids: list[int], uids: list[int], deadline_s: float = 10.0) -> tuple[dict[int, int], int]:
    """Kill ``pids`` and every descendant of this process; return their wait statuses and the strays' number.

    Ends when this process, a subreaper, has no child at all: then it has no descendant either.
    Raises Leftover when that cannot be reached in ``deadline_s`` seconds.
    """
    statuses: dict[int, int] = {}
    strays: set[int] = set()
    deadline = time.monotonic() + deadline_s
    for pid in pids:
        _kill(pid)
    waiting = set(pids)
    while True:
        try:
            pid, status = os.waitpid(-1, 0 if waiting else os.WNOHANG)
        except ChildProcessError:
            return statuses, len(strays)
        if pid in waiting:
            statuses[pid] = status
            waiting.discard(pid)
        elif pid == 0:
            strays |= _sweep(uids)
            if time.monotonic() > deadline:
                raise Leftover("processes %s could not be killed" % sorted(strays)[:10])
        elif pid not in statuses:
            strays.add(pid)


def _sweep(uids: list[int]) -> set[int]:
    """Kill all descendants once. A fork bomb outruns a list, so all of a grading's user ids die at once."""
    for uid in uids:
        in_child(lambda uid=uid: _kill_as(uid))  # type: ignore[misc]
    found = set(descendants(os.getpid()))
    for pid in found:
        _kill(pid)
    time.sleep(0.001)
    return found


def _kill_as(uid: int) -> None:
    become(uid)
    os.kill(-1, signal.SIGKILL)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def descendants(root: int) -> list[int]:
    found: list[int] = []
    queue = [root]
    while queue:
        for child in _children(queue.pop()):
            found.append(child)
            queue.append(child)
    return found


def _children(pid: int) -> list[int]:
    result: list[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as listing:
                result += map(int, listing.read().split())
    except OSError:
        pass
    return result


def wipe(path: str) -> None:
    """Remove a file or a tree, following no link, whatever its depth and rights. Raises Leftover.

    Directories are moved up beside the first one before they are emptied, so no path grows long and
    nothing recurses, however deep a graded process has dug.
    """
    top, name = os.path.split(path)
    queue = [name]
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while queue:
            queue += _unpack(fd, queue.pop())
    except OSError as error:
        raise Leftover("%s could not be removed: %s" % (name, error.strerror)) from None
    finally:
        os.close(fd)


def _unpack(top: int, name: str) -> list[str]:
    """Remove the entry ``name`` of ``top``; its subdirectories become entries of ``top``, named in the answer."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return []
    os.chmod(name, 0o700, dir_fd=top)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    moved = []
    try:
        for inner in os.listdir(fd):
            if stat.S_ISDIR(os.stat(inner, dir_fd=fd, follow_symlinks=False).st_mode):
                os.chmod(inner, 0o700, dir_fd=fd)
                moved.append(os.urandom(12).hex())
                os.rename(inner, moved[-1], src_dir_fd=fd, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=top)
    return moved


def remains(directories: list[str]) -> list[str]:
    """What stands in directories that must be empty between gradings."""
    return [directory + "/" + name for directory in directories for name in os.listdir(directory)]
