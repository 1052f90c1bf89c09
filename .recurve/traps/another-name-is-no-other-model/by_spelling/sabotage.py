replace("recurve_eval.gates.review", "_plain", lambda name: name)
