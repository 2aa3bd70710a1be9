// The line protocol of the Node peers. `interop/plain/README.md` describes it.

import { createInterface } from 'node:readline';

import { Redis } from 'ioredis';

// Errors of a library that mean an answer of the protocol.
export class NotOwned extends Error {}
export class Unsupported extends Error {}

const milliseconds = (word) => (word === 'none' ? undefined : Number(word));

const VERBS = ['acquire', 'try', 'release', 'extend', 'crowd'];

// Answers commands with one library, and remembers the locks that it holds. A library has the methods
// `acquire(name, lease, waits)`, which returns a held lock or undefined, `release(lock)`, which may return the word of
// its answer, and `extend(lock, lease)`, which may return a new lock.
class Peer {
  constructor(library, client) {
    this.library = library;
    this.client = client;
    this.held = new Map();
  }

  async acquire(name, lease) {
    this.held.set(name, await this.library.acquire(name, milliseconds(lease), true));
    return 'ok';
  }

  async try(name, lease) {
    const lock = await this.library.acquire(name, milliseconds(lease), false);
    if (lock === undefined) {
      return 'busy';
    }
    this.held.set(name, lock);
    return 'ok';
  }

  async release(name) {
    const lock = this.held.get(name);
    this.held.delete(name);
    return (await this.library.release(lock)) ?? 'ok';
  }

  async extend(name, lease) {
    const lock = this.held.get(name);
    this.held.set(name, (await this.library.extend(lock, milliseconds(lease))) ?? lock);
    return 'ok';
  }

  async crowd(name, lease, duration, counter) {
    const end = performance.now() + Number(duration);
    let [counts, inTime] = [0, 0];
    while (performance.now() < end) {
      const lock = await this.library.acquire(name, milliseconds(lease), true);
      inTime += performance.now() < end ? 1 : 0;
      const count = Number((await this.client.get(counter)) ?? 0);
      await this.client.set(counter, count + 1);
      await this.library.release(lock);
      counts += 1;
    }
    return `ok ${counts} ${inTime}`;
  }

  async answer(line) {
    const [verb, ...words] = line.trim().split(/\s+/);
    try {
      return VERBS.includes(verb) ? await this[verb](...words) : 'unsupported';
    } catch (error) {
      if (error instanceof NotOwned) {
        return 'not-owned';
      }
      return error instanceof Unsupported ? 'unsupported' : `error ${error}`.replace(/\s+/g, ' ');
    }
  }
}

// Answers each line of standard input until it ends. `open(client)` returns the library.
export async function serve(open) {
  const client = new Redis(process.argv[2]);
  const peer = new Peer(open(client), client);
  await client.ping();
  console.log('ready');
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(await peer.answer(line));
  }
  client.disconnect();
}
