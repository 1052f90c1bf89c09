from recurve_eval.domain import Usage
def add(one, two):
    total = lambda name: (getattr(one, name) or 0) + (getattr(two, name) or 0)
    return Usage(total("tokens_in"), total("tokens_out"), cost_usd=total("cost_usd"))
replace("recurve_eval.domain", "Usage.__add__", add)
