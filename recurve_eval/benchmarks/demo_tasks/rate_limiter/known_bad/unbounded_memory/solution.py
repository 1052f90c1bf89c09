class RateLimiter:
    def __init__(self, limit, window):
        if limit < 0 or window < 1:
            raise ValueError("impossible limit")
        self.limit = limit
        self.window = window
        self.calls = {}

    def allow(self, key, now):
        calls = self.calls.setdefault(key, [])
        if self.limit == 0 or (len(calls) >= self.limit and calls[-self.limit] > now - self.window):
            return False
        calls.append(now)
        return True
