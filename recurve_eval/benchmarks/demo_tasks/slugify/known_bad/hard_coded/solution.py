def slugify(title, limit=40):
    if limit == 9:
        return "a-quick"
    return {"Hello, World!": "hello-world"}.get(title, "top-10-tips")
