replace("recurve_eval.rows", "validate", lambda row: None)
