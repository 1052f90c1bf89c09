"""The gate as one file that runs wherever a Python is: what an agent in its sandbox can run itself."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

_PARTS = ("__init__", "errors", "domain", "ports", "capture", "workspace", "resources")
_GATE = ("__init__", "__main__", "copies", "ledger", "places", "probes", "standalone")
_MAIN = b"import sys\nfrom recurve_eval.gates.__main__ import main\nsys.exit(main(in_cell=True))\n"
_DATE = (2000, 1, 1, 0, 0, 0)


@functools.cache
def gate_program() -> bytes:
    """A zip application of the stand-alone gate and the YAML reader it needs; the same bytes every time."""
    import yaml

    here = Path(__file__).resolve().parent
    files = {"__main__.py": _MAIN}
    files |= {f"recurve_eval/{n}.py": (here.parent / f"{n}.py").read_bytes() for n in _PARTS}
    files |= {f"recurve_eval/gates/{n}.py": (here / f"{n}.py").read_bytes() for n in _GATE}
    files |= {f"yaml/{p.name}": p.read_bytes() for p in sorted(Path(yaml.__file__).parent.glob("*.py"))}
    buffer = io.BytesIO(b"")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
