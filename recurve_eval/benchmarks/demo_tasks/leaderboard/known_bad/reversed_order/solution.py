def leaderboard(scores):
    board = []
    for place, (name, points) in enumerate(sorted(scores, key=lambda entry: entry[1]), start=1):
        tied = bool(board) and board[-1][2] == points
        board.append((board[-1][0] if tied else place, name, points))
    return board
