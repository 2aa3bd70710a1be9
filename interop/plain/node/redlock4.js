// The peer redlock 4 with one client, and with the default pauses of 200 ms and up to 100 ms more between two attempts.

import Redlock from 'redlock4';

import { NotOwned, Unsupported, serve } from './peer.js';

async function orNotOwned(call) {
  try {
    return await call;
  } catch (error) {
    throw error instanceof Redlock.LockError ? new NotOwned() : error;
  }
}

await serve((client) => {
  const [once, endless] = [0, -1].map((retryCount) => new Redlock([client], { retryCount }));
  return {
    async acquire(name, lease, waits) {
      if (lease === undefined) {
        throw new Unsupported();
      }
      try {
        return await (waits ? endless : once).acquire(name, lease);
      } catch (error) {
        if (error instanceof Redlock.LockError) {
          return undefined;
        }
        throw error;
      }
    },
    async release(lock) {
      await orNotOwned(lock.unlock());
    },
    extend: (lock, lease) => orNotOwned(once.extend(lock, lease)),
  };
});
