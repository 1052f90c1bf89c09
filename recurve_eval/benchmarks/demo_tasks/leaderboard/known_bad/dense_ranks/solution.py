def leaderboard(scores):
    ranks = {points: rank for rank, points in enumerate(sorted({p for _, p in scores}, reverse=True), start=1)}
    return [(ranks[p], name, p) for name, p in sorted(scores, key=lambda entry: -entry[1])]
