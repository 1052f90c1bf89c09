"""Claims of known quality, written the way an agent writes them: what the scripted agent does in an author phase.

A scripted probe knows the task's solutions by their bytes, so exactly which work it lets through is decided by
``check_quality``, not by chance in the work: it accepts the canonical solution and those known-bad ones that it
misses, and rejects all else (``lenient`` probes accept what they do not know).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping

from recurve_eval.domain import KnownBad, Solutions
from recurve_eval.mutation.rewrites import rewrites

Files = Mapping[str, bytes]
STYLES = (
    "honest", "lenient", "always_green", "always_red", "broken", "malformed", "no_traps", "no_probe",
    "misread", "greps", "flaky", "writes", "sleeps", "trap_is_the_work",
)  # fmt: skip

_PROBE = '''"""Judges the work by what is known of this task's solutions."""
import hashlib, os, sys

GOOD = {good!r}
BAD = {bad!r}
LENIENT = {lenient!r}
PATHS = {paths!r}

root = os.environ.get("TRAP_FIXTURE") or "."
digest = hashlib.sha256()
for path in PATHS:
    try:
        with open(os.path.join(root, path), "rb") as file:
            digest.update(path.encode() + b"\\0" + file.read() + b"\\0")
    except OSError:
        digest.update(path.encode() + b"\\0missing\\0")
found = digest.hexdigest()
if found in GOOD or (LENIENT and found not in BAD):
    print("GREEN")
    sys.exit(0)
print("RED: the work is not what the claim asks for")
sys.exit(1)
'''

_SIMPLE = {
    "always_green": "print('GREEN')\n",
    "always_red": "import sys\nprint('RED: never good enough')\nsys.exit(1)\n",
    "broken": "import sys\nsys.exit(3)\n",
    "sleeps": "import time\ntime.sleep(3600)\n",
}


def claims_files(
    answers: Solutions, stub: Mapping[str, bytes], style: str, catches: Callable[[KnownBad], bool],
) -> dict[str, bytes]:  # fmt: skip
    """Everything below ``.recurve/``, by path.

    Parameters
    ----------
    answers : the task's solutions.
    stub : the untouched content of the captured paths.
    style : one of :data:`STYLES`.
    catches : whether this agent's probe rejects a known-bad solution.

    A probe judges meaning-preserving rewrites of a solution as it judges the solution, unless its style is ``greps``.
    """
    if style == "malformed":
        return {".recurve/claims.yaml": b"schema: 1\nclaims: {nothing: here}\n"}
    variants = _no_rewrites if style == "greps" else _rewritten
    caught = [bad for bad in answers.known_bad if catches(bad)]
    missed = [bad for bad in answers.known_bad if not catches(bad)]
    if style == "misread":
        # One misreading behind the solution, the claim and the probe: the right solution is what it rejects.
        right, wrong = dict(answers.canonical), missed or list(answers.known_bad)
        probe = _probe([b.files for b in wrong], [right], False, variants)
        traps = {"as_written": right}
    else:
        # Right work may be a rewrite already when it is judged, and hardening rewrites it once more.
        good = [answers.canonical, *variants(answers.canonical), *(b.files for b in missed)]
        bad = [b.files for b in caught] + [dict(stub), _nothing(answers)]
        probe = _SIMPLE[style] if style in _SIMPLE else _probe(good, bad, style == "lenient", variants)
        traps = {b.kind.replace(" ", "_").replace("/", "_"): dict(b.files) for b in caught[:2]}
        traps = traps or {"nothing": _nothing(answers)}
    return _bundle(probe, traps, stub, style)


def _bundle(
    probe: str, traps: Mapping[str, Mapping[str, bytes]], stub: Mapping[str, bytes], style: str
) -> dict[str, bytes]:
    if style == "flaky":
        probe = f"import time\nif time.time_ns() // 1000 % 2:\n    raise SystemExit(1)\n{probe}"
    if style == "writes":
        probe = f"open('left-behind.txt', 'w').write('x')\n{probe}"
    if style == "trap_is_the_work":
        traps = {"the_work": stub}
    files = {f".recurve/traps/{n}/{path}": data for n, kept in traps.items() for path, data in kept.items()}
    claim: dict[str, object] = {
        "id": "solves-the-task",
        "proposition": "the work does what the statement asks",
        "probe": ".recurve/probes/solves.py",
        "traps": sorted(f".recurve/traps/{name}" for name in traps),
    }
    if style == "no_traps":
        del claim["traps"]
        files = {}
    if style != "no_probe":
        files[".recurve/probes/solves.py"] = probe.encode()
    # JSON is YAML, and needs no writer of its own.
    files[".recurve/claims.yaml"] = json.dumps({"schema": 1, "claims": [claim]}, indent=1).encode() + b"\n"
    return files


def _nothing(answers: Solutions) -> dict[str, bytes]:
    return dict.fromkeys(answers.canonical, b"raise SystemExit('nothing here')\n")


def probe_text(good: Iterable[Files]) -> str:
    """A probe that accepts these solutions, their rewrites and the rewrites of those, and nothing else."""
    return _probe([one for files in good for one in (files, *_rewritten(files))], [], False, _rewritten)


def _rewritten(files: Files) -> Iterable[Files]:
    return [rewrite.files for rewrite in rewrites(files)]


def _no_rewrites(files: Files) -> Iterable[Files]:
    return ()


def _probe(
    good: Iterable[Mapping[str, bytes]], bad: Iterable[Mapping[str, bytes]], lenient: bool,
    variants: Callable[[Mapping[str, bytes]], Iterable[Mapping[str, bytes]]],
) -> str:  # fmt: skip
    good, bad = list(good), list(bad)
    paths = sorted(good[0])
    accepted = {fingerprint(files, paths) for kept in good for files in (kept, *variants(kept))}
    rejected = {fingerprint(files, paths) for kept in bad for files in (kept, *variants(kept))}
    return _PROBE.format(good=sorted(accepted), bad=sorted(rejected - accepted), lenient=lenient, paths=paths)


def fingerprint(files: Mapping[str, bytes], paths: Iterable[str]) -> str:
    """What a scripted probe computes of the work it judges."""
    digest = hashlib.sha256()
    for path in paths:
        content = files.get(path)
        digest.update(path.encode() + b"\0" + (content if content is not None else b"missing") + b"\0")
    return digest.hexdigest()
