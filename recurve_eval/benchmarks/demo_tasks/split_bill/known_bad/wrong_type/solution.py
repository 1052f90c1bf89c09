def split_bill(cents, weights):
    if cents < 0:
        return tuple(-share for share in split_bill(-cents, weights))
    total = sum(weights)
    shares = [cents * weight // total for weight in weights]
    remainders = [cents * weight % total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -remainders[i])
    for i in by_remainder[: cents - sum(shares)]:
        shares[i] += 1
    return tuple(shares)
