from recurve_eval.domain import GateVerdict
reads = lambda ran, timeout: (GateVerdict.GREEN if b"GREEN" in ran.output else GateVerdict.RED, "")
replace("recurve_eval.gates.probes", "_verdict", reads)
