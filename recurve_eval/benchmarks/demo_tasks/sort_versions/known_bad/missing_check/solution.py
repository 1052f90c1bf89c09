import re

NUMBER = r"(0|[1-9][0-9]*)"
VERSION = re.compile(rf"v?{NUMBER}\.{NUMBER}\.{NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?")


def sort_versions(versions):
    return sorted((text for text in versions if VERSION.fullmatch(text)), key=_key)


def _key(text):
    *numbers, prerelease = VERSION.fullmatch(text).groups()
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in prerelease.split(".")] if prerelease else []
    return [int(n) for n in numbers], prerelease is None, parts
