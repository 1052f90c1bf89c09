"""What holds a graded process, and the proof that nothing of it is left.

Three means, each probed at start and stated in the server's greeting: a user id per grading, a PID
namespace per grading (its init dies, everything in it dies: the kernel's guarantee), and the
subreaper, by which every orphan becomes the supervisor's child, so that "no child left" is proof.
"""

from __future__ import annotations

import errno
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
    for call, arguments in _becoming(uid):
        call(*arguments)


def _becoming(uid: int) -> list[Step]:
    return [(os.setgroups, ([],)), (os.setresgid, (uid, uid, uid)), (os.setresuid, (uid, uid, uid))]


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


# A call that raises OSError where it fails, and its arguments.
Step = tuple[Callable[..., Any], tuple[Any, ...]]


def entering(uid: int | None, limits: dict[str, int]) -> list[Step]:
    """What turns a freshly forked child into a graded one. Order matters: limits, user, then no way back.

    Laid out before the fork, since a child that only takes steps touches fewer pages than one that thinks.
    """
    size, count = limits["file_mb"] << 20, limits["processes"]
    steps: list[Step] = [(os.setsid, ()), (resource.setrlimit, (resource.RLIMIT_FSIZE, (size, size)))]
    if uid is None:
        steps.append((libc.drop_capabilities, ()))
    else:
        steps += [(resource.setrlimit, (resource.RLIMIT_NPROC, (count, count))), *_becoming(uid)]
    return [*steps, (libc.die_with_parent, ()), (libc.hide_memory, ())]


def forker_in_namespace(means: Means, own_namespace: int | None) -> Callable[[], int]:
    """A function that forks, with the child as init of a new PID namespace where there is one.

    For this process with what it has imported by now; see :func:`runner.forking.forker`.
    """
    fork = forking.forker()
    divide = own_namespace is not None and means.pid_namespace
    if not divide and not means.ipc_namespace:
        return fork

    def forked() -> int:
        if means.ipc_namespace:
            libc.unshare(libc.CLONE_NEWIPC)
        if own_namespace is None or not divide:
            return fork()
        if not means.rejoins:
            return _fork_by_another(fork)
        libc.unshare(libc.CLONE_NEWPID)
        pid = fork()
        if pid != 0:
            libc.setns(own_namespace, libc.CLONE_NEWPID)
        return pid

    return forked


def _fork_by_another(fork: Callable[[], int]) -> int:
    """Where we could not come back from a new namespace, a process that ends right away enters it for us.

    Its child becomes ours, the subreaper's. The child waits for our word, since what it asks of the
    kernel about its parent's death must be asked of us.
    """
    told, tell = os.pipe()
    wait, release = os.pipe()
    between = fork()
    if between == 0:
        try:
            libc.unshare(libc.CLONE_NEWPID)
            pid = fork()
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


def end_all(main: int, uid: int | None, hold: Callable[[], None], deadline_s: float = 10.0) -> tuple[int, int]:
    """Wait for child ``main`` to end, then kill every descendant of this process: its wait status, the strays' number.

    Ends when this process, a subreaper, has no child at all: then it has no descendant either. ``uid`` is that of
    the grading, where it has one. ``hold`` is called before any is killed and returns when they are to be. Raises
    Leftover when they cannot be ended in ``deadline_s`` seconds.
    """
    strays: set[int] = set()
    pid, status = os.waitpid(-1, 0)
    while pid != main or os.WIFSTOPPED(status):  # one that has made us its tracer is told of when it stops, too
        if pid != main:
            strays.add(pid)
        pid, status = os.waitpid(-1, 0)
    deadline = 0.0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status, len(strays)
        if pid:
            strays.add(pid)
            continue
        if not deadline:
            hold()
            deadline = time.monotonic() + deadline_s
        strays |= _sweep(uid)
        if time.monotonic() > deadline:
            raise Leftover("processes %s could not be killed" % sorted(strays)[:10])


def _sweep(uid: int | None) -> set[int]:
    """Kill all descendants once. A fork bomb outruns a list, so all of a grading's user id die at once."""
    if uid is not None:
        in_child(lambda: _kill_as(uid))
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
    if _removed(name, top):
        return []
    os.chmod(name, 0o700, dir_fd=top)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    moved = []
    try:
        for inner in os.listdir(fd):
            if not _removed(inner, fd):
                os.chmod(inner, 0o700, dir_fd=fd)
                moved.append(os.urandom(12).hex())
                os.rename(inner, moved[-1], src_dir_fd=fd, dst_dir_fd=top)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=top)
    return moved


def _removed(name: str, folder: int) -> bool:
    """Remove a file or an empty directory; False for one that holds something."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return False
    return True


def remains(directories: list[str]) -> list[str]:
    """What stands in directories that must be empty between gradings."""
    return [directory + "/" + name for directory in directories for name in os.listdir(directory)]
