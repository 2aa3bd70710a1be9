// The peer redis-semaphore: `Mutex`, with its default pause of 10 ms between two attempts. It renews its locks by
// itself, and its release does not report whether the lock was held.

import { Mutex } from 'redis-semaphore';

import { Unsupported, serve } from './peer.js';

await serve((client) => ({
  async acquire(name, lease, waits) {
    if (lease === undefined) {
      throw new Unsupported();
    }
    const bound = waits ? Infinity : 1;
    const options = { lockTimeout: lease, acquireTimeout: Infinity, acquireAttemptsLimit: bound, onLockLost() {} };
    const mutex = new Mutex(client, name, options);
    return (await mutex.tryAcquire()) ? mutex : undefined;
  },
  async release(mutex) {
    await mutex.release();
    return 'silent';
  },
  extend() {
    throw new Unsupported();
  },
}));
