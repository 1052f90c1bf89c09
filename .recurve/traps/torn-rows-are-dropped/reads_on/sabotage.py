import json
def rows(run_dir, plan_hash=None):
    return iter((run_dir / "results.jsonl").read_bytes().splitlines())
replace("recurve_eval.ledger", "read_rows", rows)
