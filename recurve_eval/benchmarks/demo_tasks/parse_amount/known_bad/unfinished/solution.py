import re


def parse_amount(text, decimal="."):
    group = "," if decimal == "." else "."
    if group in text:
        raise NotImplementedError("grouped thousands")
    match = re.fullmatch(rf"(-?)([0-9]+)(?:{re.escape(decimal)}([0-9]{{1,2}}))?", text.strip())
    if match is None:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, part = match.groups()
    cents = 100 * int(whole) + int((part or "").ljust(2, "0"))
    return -cents if sign else cents
