"""The few system calls that the standard library lacks. Linux only; the rest of the runner asks here."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18

_CAPABILITY_HEADER = ctypes.create_string_buffer(struct.pack("Ii", _LINUX_CAPABILITY_VERSION_3, 0))

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter's lock, so the child has it.
_fork = ctypes.PyDLL(None).fork


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


# Without types of the arguments: in a fresh child, each of them would be more pages to copy.
def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        _checked(-1, "prctl %d" % option)


def fork() -> int:
    """The bare system call. For a process of one thread alone; see :mod:`runner.forking`."""
    pid = int(_fork())
    if pid < 0:
        raise OSError("fork failed")
    return pid


def die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, 9)


def hide_memory() -> None:
    """No other process of this user may trace this one or read its memory through /proc."""
    _prctl(_PR_SET_DUMPABLE, 0)


def become_subreaper() -> None:
    """Orphaned descendants become our children, so that none can be lost sight of."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def bar_capabilities() -> None:
    """Take every capability out of reach of whatever this process and its children execute."""
    for capability in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break
    try:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError:
        pass


def drop_capabilities() -> None:
    """Empty the capability sets of this thread. A change from root to another user has done so already."""
    _checked(_libc.capset(_CAPABILITY_HEADER, ctypes.create_string_buffer(24)), "capset")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _checked(_libc.setns(fd, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, data)]
    _checked(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), "mount %s" % target)
