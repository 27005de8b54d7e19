import type { ProcessRole } from "../api/names.ts";
import { everySecond } from "../lib/pulse.ts";
import { knownListeners } from "./proc.ts";
import { recordKey } from "./records.ts";

interface Served {
  readonly slot: string;
  readonly role: ProcessRole;
  readonly port: number;
}

/**
 * Tells within a second that the listening socket of an engine has gone while its process lives: the kernel has no event
 * for that, and whoever takes the port gets what is sent to it. Costs one readlink a second and engine.
 */
export class SocketWatch implements Disposable {
  readonly #served = new Map<string, Served>();
  readonly #beats: Disposable;

  constructor(onGone: (slot: string) => void) {
    this.#beats = everySecond(() => {
      for (const [key, { slot, port }] of this.#served) {
        if (knownListeners(port) !== undefined) continue;
        this.#served.delete(key);
        onGone(slot);
      }
    });
  }

  /** What a look at an engine has shown. Sockets that only the kernel's table can tell of are left to the next look. */
  note(engine: Served, isListening: boolean): void {
    const key = recordKey(engine.slot, engine.role);
    if (isListening && knownListeners(engine.port) !== undefined) this.#served.set(key, engine);
    else this.#served.delete(key);
  }

  [Symbol.dispose](): void {
    this.#beats[Symbol.dispose]();
    this.#served.clear();
  }
}
