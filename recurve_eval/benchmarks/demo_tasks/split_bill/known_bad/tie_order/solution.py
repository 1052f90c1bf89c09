def split_bill(cents, weights):
    if cents < 0:
        return [-share for share in split_bill(-cents, weights)]
    total = sum(weights)
    shares = [cents * weight // total for weight in weights]
    left = cents - sum(shares)
    for i in [i for i, weight in enumerate(weights) if weight][:left]:
        shares[i] += 1
    return shares
