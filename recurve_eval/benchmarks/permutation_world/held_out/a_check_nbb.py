# An oracle without Node or nbb can judge nothing; what cannot be handed over makes that the oracle's trouble.
import os
import shutil

import graded_permutation as library

PLACES = ("/usr/local/lib/node_modules/nbb/cli.js", "/usr/lib/node_modules/nbb/cli.js")


class NodeWithNbbThatThisOracleLacks:
    pass


if shutil.which("node") is None or not any(map(os.path.isfile, PLACES)):
    library.answers(NodeWithNbbThatThisOracleLacks())
