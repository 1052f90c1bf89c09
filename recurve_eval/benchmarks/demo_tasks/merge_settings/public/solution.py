def merge_settings(base, override):
    raise NotImplementedError
