replace("recurve_eval.plan", "_refuse_collisions", lambda conditions: None)
