def slugify(title, limit=40):
    raise NotImplementedError
