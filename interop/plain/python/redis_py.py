"""The peer redis-py: `Redis.lock`."""

import sys

import redis
from redis.exceptions import LockError

from peer import NotOwned, Unsupported, serve


class RedisPy:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def acquire(self, name, lease, waits):
        lock = self.client.lock(name, timeout=lease)
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except LockError as error:
            raise NotOwned from error

    def extend(self, lock, lease):
        try:
            lock.extend(lease, replace_ttl=True)
        except LockError as error:
            raise NotOwned from error

    def force(self, _name):
        raise Unsupported


serve(RedisPy(sys.argv[1]))
