import unicodedata


def slugify(title, limit=40):
    ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    kept = "".join(c for c in ascii_only if c.isalnum() or c == " ")
    slug = kept.strip().replace(" ", "-")
    if len(slug) > limit:
        cut = slug.rfind("-", 0, limit + 1)
        slug = slug[: cut if cut > 0 else limit]
    return slug or "untitled"
