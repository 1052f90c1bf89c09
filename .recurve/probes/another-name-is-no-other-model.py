from _hold import hold, refuses


def check(place):
    from recurve_eval.gates import review
    same = review.same_model("anthropic/claude-haiku-4-5-20251001", "claude-haiku-4-5")
    return same and not review.same_model("claude-haiku-4-5", "claude-sonnet-5")


hold(check)
