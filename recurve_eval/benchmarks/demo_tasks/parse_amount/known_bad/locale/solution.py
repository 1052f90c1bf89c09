import re


def parse_amount(text, decimal="."):
    match = re.fullmatch(r"(-?)([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.([0-9]{1,2}))?", text.strip())
    if match is None:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, part = match.groups()
    cents = 100 * int(whole.replace(",", "")) + int((part or "").ljust(2, "0"))
    return -cents if sign else cents
