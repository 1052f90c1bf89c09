import recurve_eval.analysis.pairing as pairing
real = pairing.index_cells
replace("recurve_eval.analysis.pairing", "index_cells", lambda records: real({(r.arm, r.key): r for r in records}.values()))
