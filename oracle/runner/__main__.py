"""Entry point: import the runner as a package, then take its directory off the import path again."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(_HERE)

from runner import server  # noqa: E402

server.main(sys.argv[1], lambda: sys.path.remove(os.path.dirname(_HERE)))
