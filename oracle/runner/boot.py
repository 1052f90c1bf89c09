"""Start the runner from standard input: one frame of its sources, then the protocol begins.

Given to an interpreter by ``-c``. Nothing of the runner then lies on any file system that graded code
can read, and what runs is what the host hashed.
"""

import json
import os
import sys
from importlib.machinery import ModuleSpec

HOME = "/opt/recurve/runner/"


def _exactly(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


class _Sources:
    """Finds and loads the modules of the package ``runner``."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path, target=None):
        file = "__init__" if name == "runner" else name[7:] if name.startswith("runner.") else ""
        if file + ".py" not in self.sources:
            return None
        spec = ModuleSpec(name, self, origin=HOME + file + ".py", is_package=name == "runner")
        spec.has_location = True
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file = module.__spec__.origin
        exec(compile(self.sources[file[len(HOME) :]], file, "exec", dont_inherit=True), module.__dict__)


def main(config):
    sources = _Sources(json.loads(_exactly(int.from_bytes(_exactly(4), "big"))))
    sys.meta_path.insert(0, sources)
    server = __import__("runner.server", fromlist=["main"])
    server.main(config, lambda: sys.meta_path.remove(sources))


if __name__ == "__main__":
    main(sys.argv[1])
