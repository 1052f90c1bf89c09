replace("recurve_eval.leak", "HeldOutScanner._judge", lambda self, path, content: iter([str(content)]))
