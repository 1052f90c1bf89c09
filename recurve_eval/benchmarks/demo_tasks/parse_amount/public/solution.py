def parse_amount(text, decimal="."):
    raise NotImplementedError
