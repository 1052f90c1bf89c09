def flatten(value):
    raise NotImplementedError
