def merge_settings(base, override):
    merged = dict(base)
    for key, value in override.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = merge_settings(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged
