def paginate(items, page, size):
    pages = max(1, -(-len(items) // size))
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
