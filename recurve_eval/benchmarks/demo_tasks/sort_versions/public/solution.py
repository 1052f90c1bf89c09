def sort_versions(versions):
    raise NotImplementedError
