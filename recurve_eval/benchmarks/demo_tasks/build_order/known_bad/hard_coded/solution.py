def build_order(needs):
    if set(needs) == {"a", "b"}:
        raise ValueError("circle")
    return ["core", "lib", "app"] if "app" in needs else sorted(needs)
