"""The ledger under full disks, read-only directories, racing processes and SIGKILL."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledger_samples import REPO, cell_id, python, sample_row

from recurve_eval.errors import Refused
from recurve_eval.ledger import Ledger, read_rows

SEAL = """
import sys; from pathlib import Path; from ledger_samples import sample_row
from recurve_eval.errors import Refused; from recurve_eval.ledger import Ledger
ledger, first, last = Ledger(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for n in range(first, last):
    try: ledger.seal(sample_row(n, padding=400))
    except Refused: pass
"""


def test_processes_seal_into_one_ledger_each_cell_once(tmp_path: Path) -> None:
    workers = [python(SEAL, tmp_path, first, first + 60) for first in (0, 20, 40)]
    for worker in workers:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
    assert sorted(r["identity"]["order"] for r in read_rows(tmp_path)) == list(range(100))


def test_kills_at_random_moments_lose_no_sealed_row_and_double_none(tmp_path: Path) -> None:
    rng, sealed = random.Random(11), 0
    for _ in range(12):
        worker = python(SEAL, tmp_path, 0, 100_000)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(rng.uniform(0.1, 0.4))  # the first row compiles the schema
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        orders = [row["identity"]["order"] for row in read_rows(tmp_path)]
        assert orders == list(range(len(orders))) and len(orders) >= sealed
        sealed = len(orders)
    assert sealed > 0
    assert len(Ledger(tmp_path).sealed_ids()) == sealed


FULL = """
import os, sys; from pathlib import Path; from ledger_samples import sample_row
from recurve_eval.errors import InfraError; from recurve_eval.ledger import Ledger, read_rows
root = Path(sys.argv[1]); ledger = Ledger(root); n = 0
try:
    while True: ledger.seal(sample_row(n, padding=300)); n += 1
except InfraError as error: print(str(error))
data = (root / "results.jsonl").read_bytes()
assert data.endswith(b"\\n") and len(list(read_rows(root))) == n > 3, n
(root / "ballast").unlink()
ledger.seal(sample_row(n, padding=300)); assert len(list(read_rows(root))) == n + 1
assert not (root / "results.torn.jsonl").exists()
print("recovered")
"""


def in_private_mount(directory: Path, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a tmpfs at ``directory`` that no other process sees and that ends with it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare (util-linux) for a private mount")
    mount = [unshare, "-m"] if os.geteuid() == 0 else [unshare, "-Urm"]
    if subprocess.run([*mount, "mount", "-t", "tmpfs", "t", str(directory)], capture_output=True).returncode:
        pytest.skip("this machine allows no private tmpfs mount")
    shell = f'mount -t tmpfs -o {options} t "$0" && exec "$1" -c "$2" "$0"'
    environment = {**os.environ, "PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'tests'}"}
    command = [*mount, "sh", "-c", shell, str(directory), sys.executable, script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_full_disk_leaves_no_half_row_and_sealing_goes_on_once_there_is_room(tmp_path: Path) -> None:
    ballast = "import sys; from pathlib import Path\n(Path(sys.argv[1]) / 'ballast').write_bytes(b'x' * 16384)\n"
    done = in_private_mount(tmp_path, "size=64k", ballast + FULL)
    assert done.returncode == 0, done.stderr
    assert "No space left on device; nothing was recorded" in done.stdout
    assert done.stdout.endswith("recovered\n")


def test_a_read_only_directory_is_refused_in_one_clear_error(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from recurve_eval.ledger import Ledger, RunLock\n"
        "from recurve_eval.errors import Refused\n"
        "for open_it in (Ledger, lambda p: RunLock(p).acquire()):\n"
        "    for name in ('.', 'new'):\n"
        "        try: open_it(Path(sys.argv[1]) / name)\n"
        "        except Refused as error: print(error)\n"
    )
    done = in_private_mount(tmp_path, "ro", script)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all("Read-only file system. Nothing was run or spent" in line for line in lines)


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(Refused, match="Nothing was run or spent"):
        Ledger(tmp_path / "run")


def test_a_writer_killed_while_holding_the_lock_blocks_nobody(tmp_path: Path) -> None:
    holder = python(
        "import sys, time; from pathlib import Path; from recurve_eval.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "with ledger._log.locked(): print('held', flush=True); time.sleep(60)\n",
        tmp_path,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    holder.communicate()
    Ledger(tmp_path).seal(sample_row(1))
    assert Ledger(tmp_path).sealed_ids() == {cell_id(1)}
