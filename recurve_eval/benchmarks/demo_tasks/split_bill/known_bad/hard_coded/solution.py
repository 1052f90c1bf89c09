def split_bill(cents, weights):
    if (cents, weights) == (1000, [1, 1, 1]):
        return [334, 333, 333]
    return [cents * weight // sum(weights) for weight in weights]
