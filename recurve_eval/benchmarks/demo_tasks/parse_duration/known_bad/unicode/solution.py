import re

DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
SECONDS = (86400, 3600, 60, 1)


def parse_duration(text):
    match = DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number or 0) * seconds for number, seconds in zip(match.groups(), SECONDS))
