def flatten(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    pending, flat = list(reversed(value)), []
    while pending:
        item = pending.pop()
        if item and isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
        elif item or item == 0:
            flat.append(item)
    return flat
