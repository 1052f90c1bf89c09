"""Two tasks of the Harbor format, written for the tests."""

from __future__ import annotations

from pathlib import Path

BASE = "recurve-test/base:1"
TOML = """\
version = "1.0"

[metadata]
difficulty = "easy"

[verifier]
timeout_sec = 30.0
env = {{ EXPECTED = "{expected}" }}

[agent]
timeout_sec = 60.0

[environment]
memory_mb = 512
"""
DOCKERFILE = f"""\
# where the task is set
FROM {BASE}
WORKDIR /app
COPY words.txt \\
     notes/ ./
COPY tools /app/tools
COPY secret.txt /etc/secret.txt
"""
CHECK = """\
import os, pathlib
expected = os.environ["EXPECTED"]
found = pathlib.Path("/app/answer.txt")
assert found.is_file() and found.read_text().split() == expected.split(), "the words are not in order"
"""
TEST = """\
#!/bin/sh
if python3 /tests/check_the_answer.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
TEST_JSON = """\
#!/bin/sh
python3 /tests/check_the_answer.py && R=1.0 || R=0.25
echo "{\\"reward\\": $R, \\"style\\": 1}" > /logs/verifier/reward.json
"""
SOLVE = """\
#!/bin/sh
python3 -c "
words = open('/app/words.txt').read().split()
open('/app/answer.txt', 'w').write(chr(10).join(sorted(words)))
"
"""


def write(root: Path) -> Path:
    """Tasks ``sort`` (reward.txt) and ``sort-json`` (reward.json, with a partial reward for wrong work)."""
    for name, test in (("sort", TEST), ("sort-json", TEST_JSON)):
        files = {
            "task.toml": TOML.format(expected="apple pear plum"),
            "instruction.md": "Write the words of /app/words.txt to /app/answer.txt, in alphabetical order.\n",
            "environment/Dockerfile": DOCKERFILE,
            "environment/words.txt": "plum apple pear\n",
            "environment/notes/readme.txt": "one word a line, or several\n",
            "environment/tools/count.py": "#!/usr/bin/python3\nprint(len(open('/app/words.txt').read().split()))\n",
            "environment/secret.txt": "not in the workspace\n",
            "tests/test.sh": test,
            "tests/check_the_answer.py": CHECK,
            "solution/solve.sh": SOLVE,
        }
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
    return root
