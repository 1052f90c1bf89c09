import re


def parse_amount(text, decimal="."):
    group, mark = (".", ",") if decimal == "." else (",", ".")
    units = rf"([0-9]{{1,3}}(?:{re.escape(group)}[0-9]{{3}})+|[0-9]+)"
    match = re.fullmatch(rf"(-?){units}(?:{re.escape(mark)}([0-9]{{1,2}}))?", text.strip())
    if match is None:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, part = match.groups()
    cents = 100 * int(whole.replace(group, "")) + int((part or "").ljust(2, "0"))
    return -cents if sign else cents
