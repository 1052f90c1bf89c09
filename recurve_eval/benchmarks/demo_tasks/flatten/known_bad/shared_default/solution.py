def flatten(value, flat=[]):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    pending = list(reversed(value))
    while pending:
        item = pending.pop()
        if isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
        else:
            flat.append(item)
    return flat
