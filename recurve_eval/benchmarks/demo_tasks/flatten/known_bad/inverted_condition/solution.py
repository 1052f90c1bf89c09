def flatten(value):
    if isinstance(value, (list, tuple)):
        raise TypeError("expected a list or tuple")
    flat = []
    for item in value:
        if isinstance(item, (list, tuple)):
            flat += flatten(item)
        else:
            flat.append(item)
    return flat
