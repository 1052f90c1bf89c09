import re

DURATION = re.compile(r"(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?")
SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text):
    text = text.strip()
    if not text or DURATION.fullmatch(text) is None:
        raise ValueError(f"not a duration: {text!r}")
    total = 0
    for number, unit in re.findall(r"([0-9]+)([dhms])", text):
        total = int(number) * SECONDS[unit]
    return total
