import type { SlotProcess } from "../../api/process-ref.ts";
import { everySecond } from "../../lib/pulse.ts";
import { hasKnownListener } from "./proc.ts";
import { recordKey } from "./records.ts";

interface Served extends SlotProcess {
  readonly port: number;
}

/**
 * Reports within a second that the last listening socket of an engine has closed while its process lives: the kernel has no
 * event for that, and another program on the port would get the requests. Costs one readlink a second and engine.
 */
export class SocketWatch implements Disposable {
  readonly #served = new Map<string, Served>();
  readonly #beats: Disposable;

  constructor(onGone: (slot: string) => void) {
    this.#beats = everySecond(() => {
      for (const [key, { slot, port }] of this.#served) {
        if (hasKnownListener(port)) continue;
        this.#served.delete(key);
        onGone(slot);
      }
    });
  }

  /** The result of an observation. Sockets that only the kernel's table shows are left to the next observation. */
  note(engine: Served, isListening: boolean): void {
    const key = recordKey(engine);
    if (isListening && hasKnownListener(engine.port)) this.#served.set(key, engine);
    else this.#served.delete(key);
  }

  [Symbol.dispose](): void {
    this.#beats[Symbol.dispose]();
    this.#served.clear();
  }
}
