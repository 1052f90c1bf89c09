import re
from datetime import timedelta

DURATION = re.compile(r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")


def parse_duration(text):
    match = DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"not a duration: {text!r}")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
