replace("recurve_eval.rows", "tier_of", lambda gate: gate["tier"])
