def leaderboard(scores):
    board = []
    for rank, (name, points) in enumerate(sorted(scores, key=lambda entry: -entry[1]), start=1):
        if board and board[-1][2] == points:
            raise NotImplementedError("ties")
        board.append((rank, name, points))
    return board
