import copy


def merge_settings(base, override):
    merged = copy.deepcopy(base)
    for key, value in override.items():
        if value is None:
            raise NotImplementedError(f"removal of {key}")
        if isinstance(value, dict):
            below = merged.get(key)
            merged[key] = merge_settings(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
