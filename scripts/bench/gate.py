"""What each part of the gate costs beyond the probes and reviews themselves: seconds a round, within one run.

Usage: ``python scripts/bench/gate.py [TASKS]``. Agents, reviewers and probes are simulated and do next to nothing, so what
is left is copying, sandboxes, comparing and git.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ARMS = "A1,A3,A4,A7,A8,A9,A10"


def main() -> int:
    """Run the arms on a few demo tasks, and print a line for each component."""
    tasks = sys.argv[1] if len(sys.argv) > 1 else "3"
    with tempfile.TemporaryDirectory(prefix="bench-gate-") as place:
        command = [
            sys.executable, "-m", "recurve_eval", "run", f"task.select={{n: {tasks}, seed: 1}}", f"arm={ARMS}",
            "model.skill=1", "budget.wall_s=900", "tracking=none", "run.workers=1", "run.analyze=false",
        ]  # fmt: skip
        subprocess.run(command, cwd=place, check=True, capture_output=True)
        rounds = _rounds(Path(place))
    print(f"{'component':<14} {'rounds':>6} {'wall s':>8} {'probes s':>9} {'overhead s':>11}  (medians a round)")
    for name, seen in sorted(rounds.items()):
        wall, own = (statistics.median(v) for v in zip(*seen, strict=True))
        over = statistics.median(w - o for w, o in seen)
        print(f"{name:<14} {len(seen):>6} {wall:>8.3f} {own:>9.3f} {over:>11.3f}")
    return 0


def _rounds(place: Path) -> dict[str, list[tuple[float, float]]]:
    """Wall seconds and the probes' own seconds of every finding, by component and phase."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for path in place.glob("outputs/*/*/cells/*/gate/round-*.json"):
        finding = json.loads(path.read_text(encoding="utf-8"))
        name = finding["component"] + (" (admit)" if finding["phase"] == "author" else "")
        own = finding["evidence"].get("probe_wall_s") or finding["evidence"].get("check_wall_s", 0.0)
        found[name].append((finding["wall_s"], own))
    return found


if __name__ == "__main__":
    sys.exit(main())
