def flatten(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    pending, flat = list(reversed(value)), []
    while pending:
        item = pending.pop()
        if hasattr(item, "__iter__") and not (isinstance(item, (str, bytes)) and len(item) == 1):
            pending.extend(reversed(list(item)))
        else:
            flat.append(item)
    return flat
