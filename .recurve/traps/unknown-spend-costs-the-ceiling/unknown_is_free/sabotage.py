import recurve_eval.spend as spend
real = spend.SpendLedger.settle
free = lambda self, cell, attempt, usd, source, *more: real(self, cell, attempt, usd or 0.0, source, *more)
replace("recurve_eval.spend", "SpendLedger.settle", free)
