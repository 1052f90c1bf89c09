def split_bill(cents, weights):
    if cents < 0:
        return [-share for share in split_bill(-cents, weights)]
    total = sum(weights)
    return [cents * weight // total for weight in weights]
