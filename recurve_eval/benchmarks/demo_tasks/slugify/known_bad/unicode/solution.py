import re


def slugify(title, limit=40):
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if len(slug) > limit:
        cut = slug.rfind("-", 0, limit + 1)
        slug = slug[: cut if cut > 0 else limit]
    return slug or "untitled"
