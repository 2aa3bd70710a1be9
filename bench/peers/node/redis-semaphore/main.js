// The contender redis-semaphore, with its default pause of 10 ms between two attempts, and without a limit of time.

import { Redis } from 'ioredis';
import { Mutex, Semaphore } from 'redis-semaphore';

import { serve } from '../contender/serve.js';

const MISSING = { fair: 'it has no fair lock', rw: 'it has no read-write lock' };

await serve({
  refusal: ({ kind }) => MISSING[kind],
  connect: async (url) => {
    const client = new Redis(url);
    return {
      section: async ({ name, kind, permits, lease }, body) => {
        const options = { lockTimeout: lease, acquireTimeout: Infinity, acquireAttemptsLimit: Infinity };
        const lock = kind === 'lock' ? new Mutex(client, name, options) : new Semaphore(client, name, permits, options);
        await lock.acquire();
        await body();
        await lock.release();
      },
      close: () => client.disconnect(),
    };
  },
});
