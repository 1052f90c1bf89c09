def paginate(items, page, size):
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    pages = max(1, -(-len(items) // size))
    if not 0 <= page < pages:
        raise ValueError(f"page must lie between 0 and {pages - 1}, got {page}")
    start = page * size
    shown = items[start : start + size]
    return {
        "items": list(shown),
        "page": page,
        "pages": pages,
        "first": start + 1 if shown else None,
        "last": start + len(shown) if shown else None,
        "more": page + 1 < pages,
    }
