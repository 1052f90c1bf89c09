class RateLimiter:
    def __init__(self, limit, window):
        if limit < 0 or window < 1:
            raise ValueError("impossible limit")
        self.limit = limit
        self.window = window
        self.counts = {}

    def allow(self, key, now):
        current = now // self.window
        window, count = self.counts.get(key, (current, 0))
        if window != current:
            count = 0
        if count >= self.limit:
            return False
        self.counts[key] = (current, count + 1)
        return True
