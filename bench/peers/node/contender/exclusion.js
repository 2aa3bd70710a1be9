// The check that sections exclude each other, in this process and over all processes of the workload.

import { closeSync, openSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';

export class Exclusion {
  #inside = 0;
  violations = 0;

  constructor(workload) {
    this.most = workload.kind === 'semaphore' ? workload.permits : 1;
    this.witness = workload.witness;
    /** True if all tasks use one lock. Otherwise sections may overlap. */
    this.isShared = workload.what === 'hot' || workload.what === 'handover';
    this.mark = String(workload.index);
  }

  /** Enters a section. Node has no `flock`, so an exclusive section creates a file beside the witness. */
  enter() {
    if (!this.isShared) {
      return;
    }
    this.#inside += 1;
    let alone = this.#inside <= this.most;
    if (this.witness) {
      try {
        closeSync(openSync(`${this.witness}.held`, 'wx'));
      } catch {
        alone = false;
      }
      writeFileSync(this.witness, this.mark);
    }
    if (!alone) {
      this.violations += 1;
    }
  }

  leave() {
    if (!this.isShared) {
      return;
    }
    if (this.witness) {
      unlinkSync(`${this.witness}.held`);
    }
    this.#inside -= 1;
  }

  /** Returns true if the last section was one of another process, or if there was none. */
  isOurTurn() {
    try {
      const last = readFileSync(this.witness, 'utf8');
      // A reader can see the file between its truncation and the write of the other process.
      return last !== '' && last !== this.mark;
    } catch {
      return true;
    }
  }
}
