import { existsSync } from "node:fs";
import { isAlive, type Inspected } from "./inspected.ts";

const lookMs = 250;

/**
 * Sees containers end by their first process. For Podman, whose events may come seconds late; Docker's need no help. A
 * process of another pid namespace has another number here: then only events tell.
 */
export class PidWatch {
  readonly #timer: NodeJS.Timeout;
  /** First processes that were there: only these can be missed. */
  readonly #seen = new Set<number>();

  constructor(containers: () => Iterable<Inspected>, onGone: (id: string) => void) {
    this.#timer = setInterval(() => {
      for (const container of containers()) {
        const { Pid: pid } = container.info.State;
        if (!isAlive(container) || pid === 0) continue;
        if (existsSync(`/proc/${pid}`)) this.#seen.add(pid);
        else if (this.#seen.has(pid)) onGone(container.id);
      }
    }, lookMs).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
