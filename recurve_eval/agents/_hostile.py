"""Ways in which agents have been seen to misbehave, as scripts that end an otherwise honest turn."""

from __future__ import annotations

from recurve_eval.agents._script import quote

_DAEMON = (
    b"(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 1; while :; do echo late >> late.txt; "
    b"echo late > %s; sleep 0.2; done' </dev/null >/dev/null 2>&1 &) &\n"
)

BEHAVIOURS: dict[str, bytes] = {
    "hang": b"trap '' TERM; while :; do sleep 3600; done\n",
    "crash": b"kill -SEGV $$\n",
    "daemon": _DAEMON,
    "flood": b"head -c 209715200 /dev/zero\n",
    "bad_utf8": b"printf 'x\\377\\376y'; printf '\\200\\201' >&2; printf '\\377\\376 = 1\\n' > %s\n",
    "delete_workspace": b'here="$PWD"; cd /; rm -rf "$here" "$here"/* "$here"/.[!.]* 2>/dev/null || exit 0\n',
    "symlink_passwd": b"rm -f %s; ln -s /etc/passwd %s\n",
    "fifo": b"rm -f %s; mkfifo %s\n",
    "directory": b"rm -f %s; mkdir %s\n",
    "break_boundary": (
        b"chmod -R u+w .recurve .git 2>/dev/null\n"
        b"find .recurve -type f 2>/dev/null | while read f; do echo '# loosened' >> $f; done 2>/dev/null\n"
        b"rm -rf .recurve 2>/dev/null; mkdir -p .recurve 2>/dev/null && echo mine > .recurve/mine; true\n"
    ),
    "fill_disk": b"n=0; while head -c 104857600 /dev/zero > f$n; do n=$((n+1)); sleep 0.02; done; sleep 30\n",
    "exhaust_pids": b"while :; do sleep 60 & done 2>/dev/null; true\n",
    "huge_file": b"head -c 41943040 /dev/zero > %s\n",
}


def script_of(behaviour: str, path: str) -> bytes:
    """The script of one behaviour; ``path`` is the captured file that it spoils."""
    return BEHAVIOURS[behaviour].replace(b"%s", quote(path.encode()) if behaviour != "daemon" else path.encode())
