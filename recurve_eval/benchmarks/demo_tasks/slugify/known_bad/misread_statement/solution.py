import re
import unicodedata


def slugify(title, limit=40):
    ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii")
    slug = re.sub(r"[^a-z0-9]+", "_", ascii_only.lower()).strip("_")
    if len(slug) > limit:
        cut = slug.rfind("_", 0, limit + 1)
        slug = slug[: cut if cut > 0 else limit]
    return slug or "untitled"
