class RateLimiter:
    def __init__(self, limit, window):
        if limit < 0 or window < 1:
            raise ValueError(f"limit must be at least 0 and window at least 1, got {limit} and {window}")
        self.limit = limit
        self.window = window
        self.counts = {}

    def allow(self, key, now):
        count = self.counts.get(key, 0)
        if count >= self.limit:
            return False
        self.counts[key] = count + 1
        return True
