import type { SlotProcess } from "../../api/process-ref.ts";
import { everySecond } from "../../lib/pulse.ts";
import { defaultLogBytes, rotateLog } from "../logs/log-rotation.ts";
import { logFile } from "../logs/logs.ts";
import type { ProcessRecords } from "./records.ts";

/** Keeps the logs of running engines below their limit, and their records on the disk: once a second, until disposed. */
export class LogCap implements Disposable {
  readonly #options: { readonly stateDir: string; readonly logBytes?: number };
  readonly #records: ProcessRecords;
  readonly #checks: Disposable;
  #isBusy = false;

  constructor(options: { readonly stateDir: string; readonly logBytes?: number }, records: ProcessRecords) {
    this.#options = options;
    this.#records = records;
    this.#checks = everySecond(() => void this.#check());
  }

  /** A log that cannot be rotated now is tried again soon; no engine is affected. */
  async rotate(process: SlotProcess): Promise<void> {
    const { stateDir, logBytes = defaultLogBytes } = this.#options;
    await rotateLog(logFile(stateDir, process), logBytes).catch(() => undefined);
  }

  [Symbol.dispose](): void {
    this.#checks[Symbol.dispose]();
  }

  async #check(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    await this.#records.restore();
    for (const record of this.#records.all()) if (record.exit === undefined) await this.rotate(record);
    this.#isBusy = false;
  }
}
