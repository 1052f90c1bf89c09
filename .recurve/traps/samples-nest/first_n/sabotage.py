replace("recurve_eval.plan", "_sample", lambda known, select: tuple(known[: select["n"]]))
