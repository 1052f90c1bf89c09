from collections import deque


class RateLimiter:
    calls = {}

    def __init__(self, limit, window):
        if limit < 0 or window < 1:
            raise ValueError("impossible limit")
        self.limit = limit
        self.window = window

    def allow(self, key, now):
        recent = self.calls.setdefault(key, deque())
        while recent and recent[0] <= now - self.window:
            recent.popleft()
        if len(recent) >= self.limit:
            return False
        recent.append(now)
        return True
