import { existsSync } from "node:fs";
import { join } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import { operatorRunSchema, type OperatorRun } from "../../api/operator-run.ts";
import { writeJsonNow } from "../../lib/atomic-file.ts";
import { bootId } from "../../lib/boot-id.ts";
import { parseJson } from "../../lib/json.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";
import type { SourceProblem } from "../store.ts";

/** Ends that are longer ago say nothing about the operator of today. */
const shownMs = 10 * 60_000;
/**
 * A file that one operator ended with is read once more: the operator may have ended by something else. So long it is not;
 * the first look at all files after that, which is each minute, reads it.
 */
const quietMs = 30_000;

export interface RunRecordOptions {
  readonly bootId?: string;
  readonly now?: () => number;
  /** Milliseconds of a monotonic clock. */
  readonly elapsedMs?: () => number;
}

/**
 * `<state>/run.json`: whether the operator was asked to end, and which model file it was reading. The next operator knows by
 * it that its predecessor ended unexpectedly, and leaves out the file. A failed write is ignored: the record protects
 * from rare faults, and the disk's own are reported elsewhere.
 */
export class RunRecord {
  readonly #path: string;
  readonly #now: () => number;
  readonly #elapsedMs: () => number;
  readonly #openedMs: number;
  #run: OperatorRun;

  private constructor(path: string, run: OperatorRun, now: () => number, elapsedMs: () => number) {
    this.#path = path;
    this.#run = run;
    this.#now = now;
    this.#elapsedMs = elapsedMs;
    this.#openedMs = elapsedMs();
  }

  /** An unreadable record counts as an empty one. */
  static async open(stateDir: string, options: RunRecordOptions = {}): Promise<RunRecord> {
    const { bootId: boot = bootId(), now = Date.now, elapsedMs = () => performance.now() } = options;
    const path = join(stateDir, "run.json");
    const before = knownPart(operatorRunSchema, parseJson(await readTextOrNothing(path)));
    const run: OperatorRun = { schema: 1, bootId: boot, isRunning: false, ends: [], setAside: [], ...carried(before) };
    return new RunRecord(path, run, now, elapsedMs);

    function carried(last: OperatorRun | undefined): Partial<OperatorRun> {
      if (last === undefined) return {};
      const { ends, setAside, reading } = last;
      if (!last.isRunning || last.bootId !== boot) return { ends, setAside };
      const known = setAside.find(({ stamp }) => stamp === reading?.stamp);
      const others = setAside.filter((file) => file !== known);
      return {
        ends: [...ends.filter((at) => now() - Date.parse(at) < shownMs), new Date(now()).toISOString()],
        setAside: reading === undefined ? setAside : [...others, { ...reading, ends: (known?.ends ?? 0) + 1 }],
      };
    }
  }

  /** From now on an end of the process is unexpected, until disposed. */
  begin(): Disposable {
    this.#write({ ...this.#run, isRunning: true });
    return { [Symbol.dispose]: () => this.#write({ ...this.#run, isRunning: false }) };
  }

  /** The unexpected ends of the last ten minutes; undefined: none. */
  unexpectedEnds(): { readonly count: number; readonly lastAt: string } | undefined {
    const ends = this.#run.ends.filter((at) => this.#now() - Date.parse(at) < shownMs);
    const lastAt = ends.at(-1);
    return lastAt === undefined ? undefined : { count: ends.length, lastAt };
  }

  /** The model files that are set aside. */
  problems(): readonly SourceProblem[] {
    const there = this.#run.setAside.filter(({ path }) => existsSync(path));
    return there.map(({ path, ends }) => ({
      reason: "ModelSetAside",
      message: `${path} is set aside: ${why(path, ends)}`,
      file: path,
    }));
  }

  /**
   * Notes that the header of this file is read, until disposed. `stamp` differs when the file was changed. Throws an Error
   * that says why where the file is not to be read.
   */
  read(path: string, stamp: string): Disposable {
    const known = this.#run.setAside.find((file) => file.stamp === stamp);
    if (known !== undefined && (known.ends > 1 || this.#elapsedMs() - this.#openedMs < quietMs))
      throw new Error(why(path, known.ends));
    this.#write({ ...this.#run, reading: { path, stamp } });
    return {
      [Symbol.dispose]: () => {
        const { reading: _now, ...run } = this.#run;
        // The file was read to its end, or is another one by now.
        this.#write({ ...run, setAside: run.setAside.filter((file) => file.path !== path && file.stamp !== stamp) });
      },
    };
  }

  #write(run: OperatorRun): void {
    this.#run = run;
    try {
      writeJsonNow(this.#path, JSON.stringify(run));
    } catch {
      // The next write tries again.
    }
  }
}

/** `touch` gives the file another stamp, with which it is read again without a restart. */
function why(path: string, ends: number): string {
  return ends > 1
    ? `${ends} operators have ended while they read it, so it is not read again; delete it or fetch it again, or \`touch '${path}'\` where the cause was another (kill -9, too little memory)`
    : "an operator has ended while it read it; it is read once more, in about a minute";
}
