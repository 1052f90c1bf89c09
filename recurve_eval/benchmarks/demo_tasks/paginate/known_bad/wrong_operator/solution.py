def paginate(items, page, size):
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    pages = max(1, len(items) // size)
    if not 1 <= page <= pages:
        raise ValueError(f"page must lie between 1 and {pages}, got {page}")
    start = (page - 1) * size
    shown = items[start : start + size]
    return {
        "items": list(shown),
        "page": page,
        "pages": pages,
        "first": start + 1 if shown else None,
        "last": start + len(shown) if shown else None,
        "more": page < pages,
    }
