def split_bill(cents, weights):
    total = sum(weights)
    return [cents * weight / total for weight in weights]
