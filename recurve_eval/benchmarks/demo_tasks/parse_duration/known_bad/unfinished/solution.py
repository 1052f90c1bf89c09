SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text):
    text = text.strip()
    number, unit = text[:-1], text[-1:]
    if unit not in SECONDS or not number:
        raise ValueError(f"not a duration: {text!r}")
    if not number.isdigit():
        if any(other in number for other in SECONDS):
            raise NotImplementedError("several parts")
        raise ValueError(f"not a duration: {text!r}")
    return int(number) * SECONDS[unit]
