replace("recurve_eval.domain", "OracleJob.__post_init__", lambda job: None)
