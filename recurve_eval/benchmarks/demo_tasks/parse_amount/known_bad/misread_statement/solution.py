import re
from decimal import Decimal


def parse_amount(text, decimal="."):
    group = "," if decimal == "." else "."
    units = rf"(?:[0-9]{{1,3}}(?:{re.escape(group)}[0-9]{{3}})+|[0-9]+)"
    if re.fullmatch(rf"-?{units}(?:{re.escape(decimal)}[0-9]{{1,2}})?", text.strip()) is None:
        raise ValueError(f"not an amount: {text!r}")
    return Decimal(text.strip().replace(group, "").replace(decimal, "."))
