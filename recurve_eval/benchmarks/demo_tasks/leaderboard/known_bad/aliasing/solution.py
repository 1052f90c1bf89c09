def leaderboard(scores):
    scores.sort(key=lambda entry: -entry[1])
    board = []
    for place, (name, points) in enumerate(scores, start=1):
        tied = bool(board) and board[-1][2] == points
        board.append((board[-1][0] if tied else place, name, points))
    return board
