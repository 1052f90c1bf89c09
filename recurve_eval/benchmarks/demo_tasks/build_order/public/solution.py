def build_order(needs):
    raise NotImplementedError
