import re
import unicodedata


def slugify(title, limit=40):
    ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii")
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")
    if len(slug) > limit:
        raise NotImplementedError("long titles")
    return slug or "untitled"
