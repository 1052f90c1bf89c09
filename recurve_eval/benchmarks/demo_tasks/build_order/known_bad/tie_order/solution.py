def build_order(needs):
    waiting = {name: set(required) for name, required in needs.items()}
    for required in list(waiting.values()):
        for other in required:
            waiting.setdefault(other, set())
    order = []
    while waiting:
        ready = sorted(name for name, required in waiting.items() if not required)
        if not ready:
            raise ValueError("packages need each other in a circle")
        for name in ready:
            del waiting[name]
        for required in waiting.values():
            required.difference_update(ready)
        order.extend(ready)
    return order
