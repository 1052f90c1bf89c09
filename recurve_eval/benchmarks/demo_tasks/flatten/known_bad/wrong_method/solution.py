def flatten(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    flat = []
    for item in value:
        if isinstance(item, (list, tuple)):
            flat.append(flatten(item))
        else:
            flat.append(item)
    return flat
