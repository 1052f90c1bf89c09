def flatten(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    flat = []
    pending = [iter(value)]
    while pending:
        for item in pending[-1]:
            if isinstance(item, (list, tuple)):
                pending.append(iter(item))
                break
            flat.append(item)
        else:
            pending.pop()
    return flat
