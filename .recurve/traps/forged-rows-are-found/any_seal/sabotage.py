replace("recurve_eval.ledger", "_intact", lambda line: True)
