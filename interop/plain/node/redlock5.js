// The peer redlock 5 with one client, and with the default pauses of 200 ms and up to 100 ms more between two attempts.

import Redlock, { ExecutionError } from 'redlock';

import { NotOwned, Unsupported, serve } from './peer.js';

// A release and an extension fail at once. By default they try again, as an acquire does.
const ONCE = { retryCount: 0 };
const ENDLESS = { retryCount: -1 };

async function orNotOwned(call) {
  try {
    return await call;
  } catch (error) {
    throw error instanceof ExecutionError ? new NotOwned() : error;
  }
}

await serve((client) => {
  const redlock = new Redlock([client], ONCE);
  return {
    async acquire(name, lease, waits) {
      if (lease === undefined) {
        throw new Unsupported();
      }
      try {
        return await redlock.acquire([name], lease, waits ? ENDLESS : ONCE);
      } catch (error) {
        if (error instanceof ExecutionError) {
          return undefined;
        }
        throw error;
      }
    },
    async release(lock) {
      await orNotOwned(lock.release());
    },
    extend: (lock, lease) => orNotOwned(lock.extend(lease)),
  };
});
