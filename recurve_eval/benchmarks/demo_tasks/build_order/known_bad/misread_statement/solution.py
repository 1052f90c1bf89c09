def build_order(needs):
    names = set(needs)
    for name, required in needs.items():
        if name in required:
            raise ValueError(f"{name} needs itself")
        names.update(required)
    return sorted(names)
