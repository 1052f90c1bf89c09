import heapq


def build_order(needs):
    waiting = {name: set(required) for name, required in needs.items()}
    for required in needs.values():
        for other in required:
            waiting.setdefault(other, set())
    ready = [name for name, required in waiting.items() if not required]
    heapq.heapify(ready)
    order = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other, required in waiting.items():
            if name in required:
                required.discard(name)
                if not required:
                    heapq.heappush(ready, other)
    if len(order) < len(waiting):
        raise NotImplementedError("circular needs")
    return order
