import { createReadStream } from "node:fs";
import { appendFile, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { errorCode } from "../../lib/error-code.ts";
import { lineBytes } from "../logs/log-lines.ts";
import { rotatedFile, rotateLog } from "../logs/log-rotation.ts";
import { containerLogFile } from "../logs/logs.ts";
import type { Daemon } from "./daemon.ts";
import { FrameCutter, nanoseconds, type Message } from "./frames.ts";
import { isAlive, type Inspected, type Living } from "./inspected.ts";

/** A container with the facts that its log needs. */
export type Speaking = Living & Pick<Inspected, "label">;

interface Copy {
  readonly stopping: AbortController;
  /** Resolves once the container's output has ended and is written, or copying was stopped. */
  done: Promise<void>;
  isOver: boolean;
}

const rotateEveryBytes = 1024 * 1024;

/**
 * Copies the output of containers to `<state>/logs`, line by line with time and stream, so that logs outlive a
 * container and the gateway can show them without the daemon's socket. Continues where the last copy ended, by the last
 * stamp in the file.
 */
export class LogCopies {
  readonly #daemon: Daemon;
  readonly #stateDir: string;
  readonly #logBytes: number;
  /** By container and start: a restarted container is followed again. */
  readonly #copies = new Map<string, Copy>();

  constructor(options: { daemon: Daemon; stateDir: string; logBytes: number }) {
    this.#daemon = options.daemon;
    this.#stateDir = options.stateDir;
    this.#logBytes = options.logBytes;
  }

  /**
   * Follows the container unless it is followed already. Daemons sometimes end the log stream of a running container.
   */
  follow(container: Speaking): void {
    const { id, info } = container;
    if (info.State.Status === "created") return;
    const key = `${id} ${info.State.StartedAt}`;
    const known = this.#copies.get(key);
    if (known !== undefined && !(known.isOver && isAlive(container))) return;
    const before = this.#of(id);
    const copy: Copy = { stopping: new AbortController(), done: before, isOver: false };
    copy.done = before
      .then(() => this.#copy(container, copy.stopping.signal))
      .then(() => void (copy.isOver = true))
      .catch(() => this.#retry(key));
    this.#copies.set(key, copy);
  }

  /** Resolves once all output of an ended container is written, at the latest after `limitMs`. */
  async drained(id: string, limitMs: number): Promise<void> {
    const waiting = new AbortController();
    await Promise.race([this.#of(id), delay(limitMs, undefined, { signal: waiting.signal }).catch(() => undefined)]);
    waiting.abort();
  }

  /** The container is gone. */
  forget(id: string): void {
    for (const [key, { stopping }] of this.#copies) {
      if (!key.startsWith(`${id} `)) continue;
      stopping.abort();
      this.#copies.delete(key);
    }
  }

  async close(): Promise<void> {
    for (const { stopping } of this.#copies.values()) stopping.abort();
    await Promise.all([...this.#copies.values()].map(({ done }) => done));
  }

  async #of(id: string): Promise<void> {
    await Promise.all([...this.#copies].filter(([key]) => key.startsWith(`${id} `)).map(([, { done }]) => done));
  }

  /** The daemon went down: the container is followed again at its next notification. */
  #retry(key: string): void {
    this.#copies.delete(key);
  }

  /** A log that cannot be rotated now is tried again soon. */
  async #rotate(path: string): Promise<void> {
    await rotateLog(path, this.#logBytes).catch(() => undefined);
  }

  async #copy({ id, label }: Speaking, signal: AbortSignal): Promise<void> {
    const path = containerLogFile(this.#stateDir, label);
    await this.#rotate(path);
    const copied = await lastCopied(path);
    // Stamps in the future are from before the clock was set back: they do not show which lines are new.
    const { last, lines: known } = copied.last > BigInt(Date.now()) * 1_000_000n ? none : copied;
    const since =
      last === 0n ? undefined : `${last / 1_000_000_000n}.${String(last % 1_000_000_000n).padStart(9, "0")}`;
    const stream = await this.#daemon.find(
      (api) =>
        api.getContainer(id).logs({
          follow: true,
          stdout: true,
          stderr: true,
          timestamps: true,
          abortSignal: signal,
          ...(since === undefined ? {} : { since }),
        }),
      "asAborted",
    );
    if (stream === undefined) return;
    const frames = new FrameCutter();
    const lines = new LineJoiner();
    let written = 0;
    let again = 0;
    // Podman's stamps are of whole seconds: of the last one, the number of copied lines counts.
    const isNew = ({ stamp, isWhole }: Message): boolean => {
      const at = nanoseconds(stamp);
      if (at !== last || again >= known) return at >= last;
      if (isWhole) again += 1;
      return false;
    };
    try {
      for await (const chunk of stream) {
        const text = frames
          .push(Buffer.from(chunk))
          .filter(isNew)
          .map((message) => lines.push(message))
          .join("");
        if (text === "") continue;
        await append(path, text);
        written += text.length;
        if (written < rotateEveryBytes) continue;
        written = 0;
        await this.#rotate(path);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      const rest = lines.flush();
      if (rest !== "") await append(path, rest);
    }
  }
}

/** On a full disk lines are lost, and the engine continues. */
async function append(path: string, text: string): Promise<void> {
  try {
    await appendFile(path, text, { mode: 0o640 });
  } catch (error) {
    if (errorCode(error) !== "ENOSPC" && errorCode(error) !== "EDQUOT") throw error;
  }
}

/** Joins the parts of long lines, up to the length limit of logs. */
class LineJoiner {
  readonly #open = new Map<Message["stream"], { readonly stamp: string; text: Buffer }>();

  push({ stream, stamp, text, isWhole }: Message): string {
    const open = this.#open.get(stream);
    const joined = open === undefined ? text : Buffer.concat([open.text, text]).subarray(0, lineBytes);
    const line = { stamp: open?.stamp ?? stamp, text: joined };
    if (!isWhole) {
      this.#open.set(stream, line);
      return "";
    }
    this.#open.delete(stream);
    return formatted(stream, line);
  }

  flush(): string {
    const rest = [...this.#open].map(([stream, line]) => formatted(stream, line)).join("");
    this.#open.clear();
    return rest;
  }
}

function formatted(stream: Message["stream"], { stamp, text }: { stamp: string; text: Buffer }): string {
  return `${stamp} ${stream} ${text.toString()}\n`;
}

const tailBytes = 2 * lineBytes;
const none = { last: 0n, lines: 0 } as const;

/** Stamp of the last copied line, in nanoseconds, and the number of lines with it; 0 without one. */
async function lastCopied(path: string): Promise<{ readonly last: bigint; readonly lines: number }> {
  for (const file of [path, rotatedFile(path)]) {
    const found = await stat(file).catch(() => undefined);
    if (found === undefined || found.size === 0) continue;
    const chunks: Buffer[] = [];
    for await (const chunk of createReadStream(file, { start: Math.max(0, found.size - tailBytes) })) {
      chunks.push(Buffer.from(chunk));
    }
    let last = 0n;
    let lines = 0;
    for (const line of Buffer.concat(chunks).toString("latin1").split("\n")) {
      const stamp = nanoseconds(line.slice(0, Math.max(0, line.indexOf(" "))));
      lines = stamp > last ? 1 : stamp === last ? lines + 1 : lines;
      if (stamp > last) last = stamp;
    }
    if (last > 0n) return { last, lines };
  }
  return none;
}
