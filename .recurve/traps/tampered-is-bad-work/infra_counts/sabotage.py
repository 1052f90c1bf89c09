from recurve_eval.domain import OracleVerdict, Outcome
good = lambda declared, verdict: Outcome.SHIPPED_GOOD if verdict is OracleVerdict.PASS else Outcome.SHIPPED_BAD
replace("recurve_eval.domain", "outcome_of", good)
