replace("recurve_eval.plan", "Condition.hash", "the same")
