import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Config } from "../../api/config.ts";
import type { InstalledRecord } from "../../api/installed-record.ts";
import { accountNamed, groupNamed, type Account } from "../../lib/accounts.ts";
import { programOutput } from "../../lib/program-output.ts";
import type { Owner } from "../../program/owner.ts";
import { readRecord, writeRecord } from "./installed-record.ts";
import type { Layout } from "./layout.ts";
import { missingAbove } from "./paths.ts";
import type { Services } from "./services.ts";

/** The user and group of a system installation. */
export const serviceUser = "berth";

/** Accounts and programs of this machine. */
export interface Host {
  account(name: string): Account | undefined;
  groupId(name: string): number | undefined;
  /** Whether the program is on the PATH. It is not run: some leave files behind whenever they run. */
  has(program: string): boolean;
  /** Resolves with its standard output. Rejects where it fails, or is not there. */
  run(program: string, args: readonly string[]): Promise<string>;
}

const programTimeoutMs = 60_000;

export const thisHost: Host = {
  account: accountNamed,
  groupId: groupNamed,
  has: (program) => (process.env["PATH"] ?? "").split(delimiter).some((each) => existsSync(join(each, program))),
  run: (program, args) => programOutput(program, args, { signal: AbortSignal.timeout(programTimeoutMs) }),
};

/** One part of an installation. The same step may be done any number of times, also after a crash in the middle. */
export interface Step {
  /** Its act in one line, as `make the user berth`. */
  readonly what: string;
  readonly isDone: boolean;
  readonly act: () => Promise<void>;
}

/** The installation that is wanted, and the machine. */
export interface InstallTarget {
  readonly layout: Layout;
  /** The unpacked release that this program runs from. */
  readonly root: string;
  readonly version: string;
  /** The environment of the services. */
  readonly env: NodeJS.ProcessEnv;
  readonly config: Config;
  readonly services: Services;
  readonly host: Host;
  readonly recordFile: RecordFile;
}

/** The user that the services run as; undefined until a system installation has made the user. */
export function ownerOf({ layout, host }: Pick<InstallTarget, "layout" | "host">): Owner | undefined {
  if (!layout.isSystem) return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  return host.account(serviceUser);
}

/** The record of an installation while it is made: each part is noted before it is made, so that a removal finds it. */
export class RecordFile {
  readonly #layout: Pick<Layout, "record">;
  #record: InstalledRecord;
  #isWritten: boolean;

  /** `known`: the record of an earlier run, which `version` does not replace. */
  constructor(layout: Pick<Layout, "record">, known: InstalledRecord | undefined, version: string) {
    this.#layout = layout;
    this.#record = known ?? { version, previous: [], units: {}, made: { paths: [] } };
    this.#isWritten = known !== undefined;
  }

  get record(): InstalledRecord {
    return this.#record;
  }

  /** Notes directories that the installation is about to make. */
  async making(...paths: readonly string[]): Promise<void> {
    const { made } = this.#record;
    const fresh = paths.filter((path) => !made.paths.includes(path));
    if (fresh.length > 0) await this.note({ made: { ...made, paths: [...made.paths, ...fresh] } });
  }

  async note(part: Partial<InstalledRecord>): Promise<void> {
    // An update writes its own parts.
    if (this.#isWritten) this.#record = (await readRecord(this.#layout)) ?? this.#record;
    let next = { ...this.#record, ...part };
    if (!this.#isWritten) {
      // Writing the record makes its directory.
      const paths = [...(await missingAbove(this.#layout.record)), ...next.made.paths];
      next = { ...next, made: { ...next.made, paths: [...new Set(paths)] } };
    } else if (JSON.stringify(next) === JSON.stringify(this.#record)) return;
    this.#record = next;
    await writeRecord(this.#layout, next);
    this.#isWritten = true;
  }
}
