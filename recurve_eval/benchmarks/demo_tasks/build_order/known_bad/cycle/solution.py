import heapq


def build_order(needs):
    waiting = {name: set(required) - {name} for name, required in needs.items()}
    needed_by = {}
    for name, required in list(waiting.items()):
        for other in required:
            waiting.setdefault(other, set())
            needed_by.setdefault(other, []).append(name)
    ready = [name for name, required in waiting.items() if not required]
    if not ready and waiting:
        raise ValueError("packages need each other in a circle")
    heapq.heapify(ready)
    order = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other in needed_by.get(name, []):
            waiting[other].discard(name)
            if not waiting[other]:
                heapq.heappush(ready, other)
    return order
