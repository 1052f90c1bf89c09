import re


def parse_amount(text, decimal="."):
    group = "," if decimal == "." else "."
    units = rf"([0-9]{{1,3}}(?:{re.escape(group)}[0-9]{{3}})+|[0-9]+)"
    match = re.fullmatch(rf"(-?){units}(?:{re.escape(decimal)}([0-9]{{1,2}}))?", text.strip())
    if match is None:
        return None
    sign, whole, part = match.groups()
    cents = 100 * int(whole.replace(group, "")) + int((part or "").ljust(2, "0"))
    return -cents if sign else cents
