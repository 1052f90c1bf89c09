import re

NUMBER = r"(0|[1-9][0-9]*)"
VERSION = re.compile(rf"v?{NUMBER}\.{NUMBER}\.{NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?")


def sort_versions(versions):
    return list(versions).sort(key=_key)


def _key(text):
    match = VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a version: {text!r}")
    *numbers, prerelease = match.groups()
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in prerelease.split(".")] if prerelease else []
    return [int(n) for n in numbers], prerelease is None, parts
