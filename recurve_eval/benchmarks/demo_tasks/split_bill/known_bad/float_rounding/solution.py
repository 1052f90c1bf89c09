def split_bill(cents, weights):
    if cents < 0:
        return [-share for share in split_bill(-cents, weights)]
    total = sum(weights)
    exact = [cents * (weight / total) for weight in weights]
    shares = [int(share) for share in exact]
    order = sorted(range(len(weights)), key=lambda i: -(exact[i] - shares[i]))
    for i in order[: cents - sum(shares)]:
        shares[i] += 1
    return shares
