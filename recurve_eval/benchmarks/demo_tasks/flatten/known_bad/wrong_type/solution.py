def flatten(value):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list or tuple, got {type(value).__name__}")
    for item in value:
        if isinstance(item, (list, tuple)):
            yield from flatten(item)
        else:
            yield item
