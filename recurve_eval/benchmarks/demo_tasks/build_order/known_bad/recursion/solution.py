def build_order(needs):
    order, done, active = [], set(), set()

    def visit(name):
        if name in done:
            return
        if name in active:
            raise ValueError("packages need each other in a circle")
        active.add(name)
        for other in sorted(needs.get(name, [])):
            visit(other)
        active.discard(name)
        done.add(name)
        order.append(name)

    for name in sorted(needs):
        visit(name)
    return order
