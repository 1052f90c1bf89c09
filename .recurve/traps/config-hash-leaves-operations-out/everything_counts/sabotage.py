replace("recurve_eval.config", "OPERATIONAL", ())
