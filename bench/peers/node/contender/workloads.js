// The workloads, over any peer.

import { setTimeout as pause } from 'node:timers/promises';

import { Exclusion } from './exclusion.js';
import { cpuUs, now, rssKib, spread } from './usage.js';

/** The pause between two looks at the witness, and at tasks that set up, in milliseconds. */
const LOOK = 1;

/** The most acquires of the set-up at one time. Thousands at once run into the time limits of some libraries. */
const AT_ONCE = 256;

/** One workload of one peer. */
export class Run {
  #setUp = 0;
  #errors = 0;
  #error = null;
  #deadline = 0;
  #records = [];

  constructor(workload, connect) {
    this.workload = workload;
    this.connect = connect;
    this.exclusion = new Exclusion(workload);
    this.window = new Promise((resolve) => (this.beginWindow = resolve));
    this.over = new Promise((resolve) => (this.endWindow = resolve));
  }

  /** Runs the workload and returns its figures. */
  async toEnd(url, verb) {
    const rssBefore = rssKib();
    this.peer = await this.connect(url, this.workload);
    const { holders, tasks } = await this.#start();
    await verb.exchange('ready', 'go');
    const [began, cpu] = [now(), cpuUs()];
    this.#deadline = began + this.workload.seconds * 1e6;
    this.beginWindow();
    await pause(this.workload.seconds * 1e3);
    const figures = { elapsed_us: now() - began, cpu_us: cpuUs() - cpu, rss_kib: rssKib(), rss_before_kib: rssBefore };
    await verb.exchange('end', 'finish');
    const released = now();
    this.isOver = true;
    this.endWindow();
    const isServed = await this.#untilEnded(tasks);
    figures.drain_us = this.workload.what === 'idle' && isServed ? now() - released : null;
    await Promise.all(holders);
    await this.peer.close();
    return { ...figures, ...this.#sum(this.#records) };
  }

  /** Waits for the tasks. Returns false if waiters of an idle workload were not served in time. */
  async #untilEnded(tasks) {
    const ended = Promise.all(tasks).then(() => true);
    if (this.workload.what !== 'idle') {
      return ended;
    }
    return Promise.race([ended, pause(this.workload.drain_seconds * 1e3, false)]);
  }

  #sum(records) {
    const perTask = records.map((record) => record.grants);
    return {
      grants: perTask.reduce((sum, grants) => sum + grants, 0),
      latency: spread(records.flatMap((record) => record.latency)),
      wait: spread(records.flatMap((record) => record.wait)),
      per_task: perTask,
      violations: this.exclusion.violations,
      errors: this.#errors,
      error: this.#error,
      holds: records.flatMap((record) => record.holds),
    };
  }

  /** Starts the holders and the tasks. Returns when the holders hold and the waiters have started. */
  async #start() {
    const { what, tasks: count, names } = this.workload;
    const holders = [];
    const holding = { held: count, idle: names }[what] ?? 0;
    while (holders.length < holding) {
      holders.push(this.#hold(holders.length));
      if (holders.length % AT_ONCE === 0 || holders.length === holding) {
        await this.#untilSetUp(holders.length);
      }
    }
    const body = { idle: this.#wait, handover: this.#takeTurns }[what] ?? this.#contend;
    const tasks = Array.from({ length: what === 'held' ? 0 : count }, (_, number) => body.call(this, number));
    await this.#untilSetUp(holders.length + tasks.length);
    return { holders, tasks };
  }

  async #untilSetUp(count) {
    while (this.#setUp < count) {
      if (this.#error) {
        throw new Error(`the set-up failed: ${this.#error}`);
      }
      await pause(LOOK);
    }
  }

  #request(task) {
    const { what, kind, prefix, index, names, permits, lease_ms: lease } = this.workload;
    const name = { pairs: `${prefix}:${index}:${task}`, held: `${prefix}:${index}:${task}`, idle: `${prefix}:${task % names}` };
    return { name: name[what] ?? prefix, kind, permits, lease, renewed: what === 'held' };
  }

  #failed(error) {
    this.#errors += 1;
    this.#error ??= String(error?.message ?? error);
  }

  /** Holds a lock until the window is over. */
  async #hold(task) {
    const body = async () => {
      this.#setUp += 1;
      await this.over;
    };
    await this.peer.section(this.#request(task), body).catch((error) => {
      // The release of a held lock is behind the window, and all are released at once.
      if (this.workload.what !== 'held' || !this.isOver) {
        this.#failed(error);
      }
    });
  }

  /** Waits for a lock until the window is over, and takes it. */
  async #wait(task) {
    this.#setUp += 1;
    const record = this.#newRecord();
    const body = async () => {
      record.grants = 1;
    };
    await this.peer.section(this.#request(task), body).catch((error) => this.#failed(error));
  }

  /** Runs a section under a name of the task's own, so that scripts are loaded and connections are open. */
  async #warmUp(task) {
    const name = `${this.workload.prefix}:warm:${this.workload.index}:${task}`;
    await this.peer.section({ ...this.#request(task), name }, async () => {}).catch((error) => this.#failed(error));
    this.#setUp += 1;
  }

  /** Runs one section after the other until the window is over. */
  async #contend(task) {
    await this.#warmUp(task);
    await this.window;
    const record = this.#newRecord();
    while (now() < this.#deadline) {
      await this.#oneSection(task, record).catch((error) => this.#failed(error));
    }
  }

  /** Runs a section whenever the last section was one of the other process. */
  async #takeTurns(task) {
    await this.#warmUp(task);
    await this.window;
    const record = this.#newRecord();
    while (now() < this.#deadline) {
      if (this.exclusion.isOurTurn()) {
        await this.#oneSection(task, record).catch((error) => this.#failed(error));
      } else {
        await pause(LOOK);
      }
    }
  }

  #newRecord() {
    const record = { grants: 0, latency: [], wait: [], holds: [] };
    this.#records.push(record);
    return record;
  }

  async #oneSection(task, record) {
    const asked = now();
    let [granted, left] = [0, 0];
    await this.peer.section(this.#request(task), async () => {
      granted = now();
      this.exclusion.enter();
      // A section that begins after the window only lets the next waiter pass.
      if (this.workload.section_us > 0 && granted < this.#deadline) {
        await pause(this.workload.section_us / 1e3);
      }
      this.exclusion.leave();
      left = now();
    });
    record.latency.push(granted - asked + (now() - left));
    record.wait.push(granted - asked);
    record.grants += granted < this.#deadline ? 1 : 0;
    if (this.workload.what === 'handover') {
      record.holds.push([granted, left]);
    }
  }
}
