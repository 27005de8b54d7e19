import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { sha256 } from "../../lib/canonical.ts";

/**
 * `<state>/upstreams/`: the addresses of providers that were written over the API without authentication, one file
 * each. A gateway sends no request of such a provider to services of its own machine, however the address comes to lead
 * there. A file stays when its provider is deleted; it is removed when the same address is written over the API by an
 * administrator, or with SVC_API_EXEC=1. An address in a manifest alone has no file here.
 */
export class OpenUpstreams {
  readonly #path: string;

  constructor(stateDir: string) {
    this.#path = join(stateDir, "upstreams");
  }

  /** Synchronous: called when a provider is opened. */
  has(name: string, baseUrl: string): boolean {
    return existsSync(this.#file(name, baseUrl));
  }

  /** Before the manifest is written, so that no gateway opens the provider without this record. */
  async add(name: string, baseUrl: string): Promise<void> {
    await mkdir(this.#path, { recursive: true, mode: 0o750 });
    const text = JSON.stringify({ schema: 1, name, base_url: baseUrl });
    await writeFileAtomic(this.#file(name, baseUrl), text, { fsync: true, mode: 0o640 });
  }

  async remove(name: string, baseUrl: string): Promise<void> {
    await rm(this.#file(name, baseUrl), { force: true });
  }

  #file(name: string, baseUrl: string): string {
    return join(this.#path, `${sha256(`${name}\n${baseUrl}`).slice(0, 32)}.json`);
  }
}
