def split_bill(cents, weights):
    if cents < 0:
        return [-share for share in split_bill(-cents, weights)]
    share, left = divmod(cents, len(weights))
    return [share + (i < left) for i in range(len(weights))]
