import heapq


def build_order(needs):
    waiting = {}
    leads_to = {}
    for name, required in needs.items():
        waiting.setdefault(name, 0)
        for other in set(required):
            waiting[other] = waiting.get(other, 0) + 1
            leads_to.setdefault(name, []).append(other)
    ready = [name for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other in leads_to.get(name, []):
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(ready, other)
    if len(order) < len(waiting):
        raise ValueError("packages need each other in a circle")
    return order
