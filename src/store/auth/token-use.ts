import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";
import { Serial } from "../../lib/serial.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/** Several first uses in a row are one write. */
const soonMs = 1000;

/**
 * When each token was last used: a note in memory per request, a small file per token at most every `intervalMs`, and
 * soon after the first use after a pause. Several processes share the files; the later time stays.
 */
export class TokenUse implements AsyncDisposable {
  readonly #options: { path: string; intervalMs: number; exists: (id: string) => boolean };
  readonly #unwritten = new Map<string, number>();
  readonly #writes = new Serial();
  #timer: NodeJS.Timeout | undefined;
  #writtenAt = -Infinity;

  constructor(options: { path: string; intervalMs: number; exists: (id: string) => boolean }) {
    this.#options = options;
  }

  mark(id: string): void {
    const now = steadyNow();
    this.#unwritten.set(id, Date.now());
    if (this.#timer !== undefined) return;
    const { intervalMs } = this.#options;
    const waitMs = Math.min(intervalMs, Math.max(soonMs, this.#writtenAt + intervalMs - now));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#writtenAt = steadyNow();
      // The next use writes it again: a full disk must not fail requests.
      void this.#writes.run(() => this.#write()).catch(() => undefined);
    }, waitMs);
    this.#timer.unref();
  }

  /** ISO 8601, null for never; unwritten times of this process count. */
  async last(id: string): Promise<string | null> {
    const written = await this.#read(id);
    const own = this.#unwritten.get(id) ?? 0;
    const latest = Math.max(own, written);
    return latest === 0 ? null : new Date(latest).toISOString();
  }

  async forget(id: string): Promise<void> {
    this.#unwritten.delete(id);
    await this.#writes.run(() => rm(this.#file(id), { force: true }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    await this.#writes.run(() => this.#write());
  }

  #file(id: string): string {
    return join(this.#options.path, id);
  }

  async #read(id: string): Promise<number> {
    const text = await readTextOrNothing(this.#file(id));
    const time = Date.parse(text.trim());
    return Number.isNaN(time) ? 0 : time;
  }

  async #write(): Promise<void> {
    const marked = [...this.#unwritten];
    if (marked.length === 0) return;
    await mkdir(this.#options.path, { recursive: true, mode: 0o700 });
    for (const [id, time] of marked) {
      // A revoked token leaves no file.
      if (this.#options.exists(id) && time > (await this.#read(id))) {
        await writeFileAtomic(this.#file(id), `${new Date(time).toISOString()}\n`, { fsync: false, mode: 0o600 });
      }
      if (this.#unwritten.get(id) === time) this.#unwritten.delete(id);
    }
  }
}
