"""Oracle backends: the grader's side that does not run hostile code.

What runs inside the quarantine is the directory that :func:`recurve_eval.resources.oracle_dir` names.
"""
