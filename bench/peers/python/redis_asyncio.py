"""The contender redis: the asyncio lock of the package, with its default pause of 100 ms between two attempts."""

import redis.asyncio

from contender.serve import serve
from contender.tasks import AsyncTasks

# The package opens a connection for each call that runs. Calls wait for one of these instead.
CONNECTIONS = 64


class Redis:
    """A peer."""

    def refusal(self, workload):
        if workload["kind"] != "lock":
            return "it has the plain lock alone"
        return "it does not renew by itself" if workload["what"] == "held" else None

    async def connect(self, url, _workload):
        pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=None)
        self.client = redis.asyncio.Redis.from_pool(pool)

    async def section(self, request, body):
        lock = self.client.lock(request.name, timeout=request.lease)
        await lock.acquire()
        await body()
        await lock.release()

    async def close(self):
        await self.client.aclose()


serve(Redis(), AsyncTasks())
