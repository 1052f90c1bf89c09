replace("recurve_eval.agents.record", "count", lambda value: value)
