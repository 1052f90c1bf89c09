from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import OracleVerdict, outcome_of
    return (outcome_of(True, OracleVerdict.TAMPERED) == "shipped_bad" and outcome_of(True, OracleVerdict.UNSCORED) == "unscored"
            and outcome_of(False, OracleVerdict.PASS) == "withheld_good")


hold(check)
