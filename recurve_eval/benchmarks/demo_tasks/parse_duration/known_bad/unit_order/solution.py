import re

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text):
    text = text.strip()
    if not re.fullmatch(r"([0-9]+[dhms])+", text):
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([dhms])", text))
