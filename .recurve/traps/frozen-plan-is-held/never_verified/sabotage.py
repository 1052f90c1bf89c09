replace("recurve_eval.plan", "_verify_frozen", lambda *words: None)
