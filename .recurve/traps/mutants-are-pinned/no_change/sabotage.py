import ast
replace("recurve_eval.mutation.mutants", "_apply", lambda source, site: ast.unparse(ast.parse(source)))
