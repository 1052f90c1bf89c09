import re


def sort_versions(versions):
    for text in versions:
        if not re.fullmatch(r"v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?", text):
            raise ValueError(f"not a version: {text!r}")
    return sorted(versions, key=lambda text: text.lstrip("v"))
