import copy


def merge_settings(base, override):
    return _overlay(override, base)


def _overlay(base, override):
    merged = copy.deepcopy(base)
    for key, value in override.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = _overlay(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
