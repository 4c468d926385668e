// What is kept of orders, in one JSON file that is replaced whole: it is the old one or the new one, never half of either.
// Invariant: (epoch, version) of an order only ever rises, whatever comes, however often and in whatever order.
// A file this simple is written once a batch and is fine for some thousands of orders; a service has its database here.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** What this reader uses of an event's data. It may hold more, and more than today. */
export interface OrderChanged {
  partner: string;
  merchantCode: string;
  orderId: string;
  epoch: number;
  version: number;
  state: string;
  fulfil: boolean;
  attention: string[];
}

export class Kept {
  readonly #path: string;
  readonly #orders: Map<string, OrderChanged>;

  constructor(path: string) {
    this.#path = path;
    this.#orders = new Map(read(path));
  }

  /** Takes one event; false if it is not above what is kept. It is not durable before `save`. */
  take(key: string, data: OrderChanged): boolean {
    const known = this.#orders.get(key);
    if (known !== undefined && !isAbove(data, known)) {
      return false;
    }
    const before = known?.epoch === data.epoch ? known.version : 0;
    const begins = known === undefined || known.epoch === data.epoch;
    if (begins && data.version > before + 1) {
      console.error(`gap: ${key} goes from version ${before} to ${data.version}`);
    }
    this.#orders.set(key, data);
    return true;
  }

  save(): void {
    const next = `${this.#path}.next`;
    const file = openSync(next, "w", 0o600);
    writeSync(file, JSON.stringify([...this.#orders]));
    fsyncSync(file);
    closeSync(file);
    renameSync(next, this.#path);
    const folder = openSync(dirname(this.#path), "r");
    fsyncSync(folder);
    closeSync(folder);
  }

  show(): void {
    const orders = [...this.#orders].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [order, { epoch, version, state, fulfil }] of orders) {
      console.log(JSON.stringify({ order, epoch, version, state, fulfil }));
    }
  }
}

function isAbove(data: OrderChanged, known: OrderChanged): boolean {
  return data.epoch > known.epoch || (data.epoch === known.epoch && data.version > known.version);
}

function read(path: string): [string, OrderChanged][] {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return [];
    }
    throw error;
  }
}
