replace("recurve_eval.plan", "digest", lambda value: "same")
