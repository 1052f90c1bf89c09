replace("recurve_eval.domain", "_demand", lambda value, kind, message: None)
