"""The version of the canaries moves with the canaries."""

import ast
import hashlib
from pathlib import Path

RUNNER = Path(__file__).resolve().parents[2] / "oracle" / "runner"
CANARIES = {
    "conventions.py": ("MustFail", "CANARIES", "_canary", "run_unittest", "run_check"),
    "heldout.py": ("below", "Wrong", "twin", "near", "Watch"),
    "namespace.py": ("run_namespace", "_with_canaries"),
    "reference.py": ("_canary",),
}
KNOWN = {2: "9aab843c7935ba46"}


def named(module: ast.Module, name: str) -> ast.stmt:
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        if any(getattr(target, "id", getattr(target, "name", None)) == name for target in targets):
            return node
    raise LookupError(name)


def test_changed_canaries_are_a_new_version() -> None:
    """Where this fails, raise CANARY_VERSION and enter the new hash: a lock then refuses by that name."""
    sources = {file: (RUNNER / file).read_text() for file in CANARIES}
    modules = {file: ast.parse(source) for file, source in sources.items()}
    places = [(file, name) for file, names in CANARIES.items() for name in names]
    text = "\n".join(str(ast.get_source_segment(sources[file], named(modules[file], name))) for file, name in places)
    version = named(modules["conventions.py"], "CANARY_VERSION")
    assert isinstance(version, ast.Assign)
    assert KNOWN[ast.literal_eval(version.value)] == hashlib.sha256(text.encode()).hexdigest()[:16]
