def leaderboard(scores):
    ordered = sorted(scores, key=lambda entry: -entry[1])
    return [(rank, name, points) for rank, (name, points) in enumerate(ordered, start=1)]
