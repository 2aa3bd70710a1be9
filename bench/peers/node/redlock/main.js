// The contender redlock, with its default pause of 200 ms and up to 100 ms more between two attempts, and without a
// limit of attempts.

import { Redis } from 'ioredis';
import Redlock from 'redlock';

import { serve } from '../contender/serve.js';

await serve({
  refusal: ({ kind }) => (kind === 'lock' ? undefined : 'it has the plain lock alone'),
  connect: async (url) => {
    const client = new Redis(url);
    const redlock = new Redlock([client], { retryCount: -1 });
    // The library reports each attempt that finds the lock held.
    redlock.on('error', () => {});
    return {
      section: async ({ name, lease, renewed }, body) => {
        if (renewed) {
          return redlock.using([name], lease, body);
        }
        const lock = await redlock.acquire([name], lease);
        await body();
        return lock.release();
      },
      close: () => client.disconnect(),
    };
  },
});
