from _hold import hold, refuses


def check(place):
    from recurve_eval.agents.record import parse_record
    record = parse_record(b'{"tokens": {"input": 5, "output": -1}, "cost_usd": 0.1}')
    return record.state.startswith("malformed") and record.usage.cost_usd is None


hold(check)
