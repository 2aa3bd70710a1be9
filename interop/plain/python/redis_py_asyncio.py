"""The peer redis-py: `redis.asyncio.Redis.lock`."""

import asyncio
import sys

import redis
import redis.asyncio
from redis.exceptions import LockError

from peer import NotOwned, Unsupported, serve


class RedisPyAsyncio:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url)
        self.locks = redis.asyncio.Redis.from_url(url)
        self.loop = asyncio.new_event_loop()

    def wait_for(self, future):
        try:
            return self.loop.run_until_complete(future)
        except LockError as error:
            raise NotOwned from error

    def acquire(self, name, lease, waits):
        lock = self.locks.lock(name, timeout=lease)
        return lock if self.wait_for(lock.acquire(blocking=waits)) else None

    def release(self, lock):
        self.wait_for(lock.release())

    def extend(self, lock, lease):
        self.wait_for(lock.extend(lease, replace_ttl=True))

    def force(self, _name):
        raise Unsupported


serve(RedisPyAsyncio(sys.argv[1]))
