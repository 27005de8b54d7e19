import { existsSync } from "node:fs";
import { isAlive, type Living } from "./inspected.ts";

const intervalMs = 250;

/**
 * Notices the end of containers by their first process. For Podman, whose events may come seconds late; Docker's need
 * no help. A process of another pid namespace has another number here: then only events report it.
 */
export class PidWatch {
  readonly #timer: NodeJS.Timeout;
  /** First processes that existed, by container: only these can disappear. */
  readonly #seen = new Map<string, number>();

  constructor(containers: () => Iterable<Living>, onGone: (id: string) => void) {
    this.#timer = setInterval(() => {
      const known = [...containers()];
      for (const { id, info } of known) {
        const { Pid: pid } = info.State;
        if (pid !== 0 && existsSync(`/proc/${pid}`)) this.#seen.set(id, pid);
        else if (this.#seen.get(id) === pid && isAlive({ id, info })) onGone(id);
      }
      if (this.#seen.size <= known.length) return;
      const ids = new Set(known.map(({ id }) => id));
      for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id);
    }, intervalMs).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
