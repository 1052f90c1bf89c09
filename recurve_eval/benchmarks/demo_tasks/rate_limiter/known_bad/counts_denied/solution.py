from collections import deque


class RateLimiter:
    def __init__(self, limit, window):
        if limit < 0 or window < 1:
            raise ValueError("impossible limit")
        self.limit = limit
        self.window = window
        self.calls = {}

    def allow(self, key, now):
        recent = self.calls.setdefault(key, deque())
        while recent and recent[0] <= now - self.window:
            recent.popleft()
        recent.append(now)
        return len(recent) <= self.limit
