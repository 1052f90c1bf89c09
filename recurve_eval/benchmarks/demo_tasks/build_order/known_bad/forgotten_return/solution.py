from graphlib import CycleError, TopologicalSorter


def build_order(needs):
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(str(error)) from None
    order = []
    ready = sorted(sorter.get_ready())
    while ready:
        name = ready.pop(0)
        order.append(name)
        sorter.done(name)
        ready = sorted([*ready, *sorter.get_ready()])
