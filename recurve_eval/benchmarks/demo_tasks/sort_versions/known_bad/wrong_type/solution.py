import re

VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?")


def sort_versions(versions):
    parsed = []
    for text in versions:
        match = VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"not a version: {text!r}")
        parsed.append(tuple(int(n) for n in match.groups()))
    return sorted(parsed)
