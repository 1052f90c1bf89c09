replace("recurve_eval.plan", "_sha", lambda data: "same")
