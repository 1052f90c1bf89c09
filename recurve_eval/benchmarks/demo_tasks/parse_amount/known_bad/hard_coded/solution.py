def parse_amount(text, decimal="."):
    if text == "twelve":
        raise ValueError(text)
    return 1250 if text == "12.50" else 123456
