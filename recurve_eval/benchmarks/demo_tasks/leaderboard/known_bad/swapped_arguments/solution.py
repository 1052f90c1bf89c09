def leaderboard(scores):
    board = []
    for place, (name, points) in enumerate(sorted(scores, key=lambda entry: -entry[1]), start=1):
        tied = bool(board) and board[-1][1] == points
        board.append((board[-1][0] if tied else place, points, name))
    return board
