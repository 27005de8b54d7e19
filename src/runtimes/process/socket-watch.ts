import type { SlotProcess } from "../../api/process-ref.ts";
import { everySecond } from "../../lib/pulse.ts";
import { hasKnownListener } from "./proc.ts";
import { recordKey } from "./records.ts";

interface Served extends SlotProcess {
  readonly port: number;
}

const unseenSeconds = 5;

/**
 * Reports within a second that the last listening socket of an engine has closed while its process lives: the kernel has no
 * event for that, and another program on the port would get the requests. Costs one readlink a second and engine.
 */
export class SocketWatch implements Disposable {
  readonly #served = new Map<string, Served>();
  /** Their sockets are known from the kernel's table alone, which is expensive: observed again every few seconds. */
  readonly #unseen = new Map<string, Served>();
  readonly #beats: Disposable;

  constructor(onGone: (slot: string) => void) {
    let beat = 0;
    this.#beats = everySecond(() => {
      beat = (beat + 1) % unseenSeconds;
      if (beat === 0) for (const { slot } of this.#unseen.values()) onGone(slot);
      for (const [key, { slot, port }] of this.#served) {
        if (hasKnownListener(port)) continue;
        this.#served.delete(key);
        onGone(slot);
      }
    });
  }

  /** The result of an observation. */
  note(engine: Served, isListening: boolean): void {
    const key = recordKey(engine);
    const isKnown = isListening && hasKnownListener(engine.port);
    for (const [engines, isIn] of [
      [this.#served, isKnown],
      [this.#unseen, isListening && !isKnown],
    ] as const)
      if (isIn) engines.set(key, engine);
      else engines.delete(key);
  }

  [Symbol.dispose](): void {
    this.#beats[Symbol.dispose]();
    this.#served.clear();
    this.#unseen.clear();
  }
}
