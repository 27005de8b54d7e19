import { setTimeout as delay } from "node:timers/promises";
import { isSameProcess, processName, type SlotProcess } from "../../api/process-ref.ts";
import type { ProcessRecord } from "../../api/process-record.ts";
import { errorCode } from "../../lib/error-code.ts";
import { startTimeOf, type ProcEntry } from "../../lib/process-identity.ts";
import { labelOf, type Trust } from "./label.ts";
import { listProcs, ownsSocket } from "./proc.ts";
import type { RemoveOptions } from "../runtime.ts";

const firstPollMs = 5;
const slowestPollMs = 100;
/** A process that stays this long after KILL hangs in the kernel: a longer wait does not help. */
const killedMs = 30_000;

export interface GroupIdentity extends SlotProcess {
  readonly instance: string;
  /** The record of the group's first process. */
  readonly record: ProcessRecord | undefined;
  readonly trust: Trust;
}

/**
 * All processes of one engine: its leader, the members of the leader's session, and every process with its label whose
 * user is one of engines. A pid that was proven once stays proven with its start time, also when its parent ends before
 * it. No other process is ever signalled.
 */
export class EngineGroup {
  readonly #identity: GroupIdentity;
  readonly #leader: { readonly pid: number; readonly startTime: string } | undefined;
  readonly #proven = new Map<number, string>();

  /** `leader` only when it is proven to be ours. */
  constructor(identity: GroupIdentity, leader?: { readonly pid: number; readonly startTime: string }) {
    this.#identity = identity;
    this.#leader = leader;
    if (leader !== undefined) this.#proven.set(leader.pid, leader.startTime);
  }

  /** A fresh scan of every process of this machine. */
  scan(): ProcEntry[] {
    const entries = listProcs().filter(({ pid }) => pid !== process.pid);
    const session = new Set(this.#sessionIn(entries));
    return this.#prove(entries.filter((entry) => session.has(entry) || this.#isLabelled(entry.pid)));
  }

  /**
   * Whether the engine holds each of these sockets: a program of the same user may share a port with it and get some of
   * its connections. The leader nearly always holds them; only otherwise is every process scanned.
   */
  holds(inodes: ReadonlySet<string>): boolean {
    const leader = this.#leader;
    if (leader === undefined) return false;
    const others = [...inodes].map((inode) => new Set([inode])).filter((inode) => !ownsSocket(leader.pid, inode));
    if (others.length === 0) return true;
    const family = this.#family();
    return others.every((inode) => family.some(({ pid }) => ownsSocket(pid, inode)));
  }

  /**
   * The leader, its session and their descendants. No other process can become one of these, while a label can be
   * copied.
   */
  #family(): ProcEntry[] {
    const leader = this.#leader;
    const entries = listProcs();
    if (!entries.some(({ pid, startTime }) => pid === leader?.pid && startTime === leader.startTime)) return [];
    const family = entries.filter(({ pid, session }) => pid === leader?.pid || session === leader?.pid);
    const pids = new Set(family.map(({ pid }) => pid));
    for (let found = family; found.length > 0;) {
      found = entries.filter(({ pid, parent }) => pids.has(parent) && !pids.has(pid));
      for (const entry of found) {
        pids.add(entry.pid);
        family.push(entry);
      }
    }
    return family;
  }

  /** The processes that are proven without reading every environment of this machine, which takes as long again. */
  #quickScan(): ProcEntry[] {
    return this.#prove(this.#sessionIn(listProcs().filter(({ pid }) => pid !== process.pid)));
  }

  #sessionIn(entries: readonly ProcEntry[]): ProcEntry[] {
    const leader = this.#leader;
    // While its leader lives, a session's number belongs to no other.
    const hasLeader = entries.some(({ pid, startTime }) => pid === leader?.pid && startTime === leader.startTime);
    return entries.filter(
      ({ pid, startTime, session }) => this.#proven.get(pid) === startTime || (hasLeader && session === leader?.pid),
    );
  }

  #prove(members: ProcEntry[]): ProcEntry[] {
    for (const { pid, startTime } of members) this.#proven.set(pid, startTime);
    return members;
  }

  /**
   * TERM to each, KILL to the rest after `stopSeconds` or on abort. Resolves once a scan finds none; rejects when one
   * is still there 30 s after KILL, when only those are left that this user may not signal, when `closing` aborts, and
   * when `check` throws: the next operator may have started the slot's next engine by then, which carries the same label.
   */
  async end({ stopSeconds, signal }: RemoveOptions, closing: AbortSignal, check?: () => void): Promise<void> {
    const woken = signal === undefined ? closing : AbortSignal.any([signal, closing]);
    const killAt = performance.now() + stopSeconds * 1000;
    const signalled = new Set<string>();
    /** Programs that have changed their user, as sudo does. */
    const refused = new Set<string>();
    let giveUpAt: number | undefined;
    let waitMs = firstPollMs;
    // The engine itself gets its signal at once, before the scan.
    let members = this.#quickScan();
    if (members.length === 0) members = this.scan();
    while (members.length > 0) {
      closing.throwIfAborted();
      check?.();
      if (members.every((member) => refused.has(identityOf(member))))
        throw new Error(
          `${this.#named(members)} runs as another user, and may not be ended by this one: end it as root, and start the ` +
            "engine without sudo or the like",
        );
      const now = performance.now();
      if (signal?.aborted === true || now >= killAt) {
        giveUpAt ??= now + killedMs;
        if (now > giveUpAt)
          throw new Error(`${this.#named(members)} is still there ${killedMs / 1000} s after SIGKILL`);
        for (const member of members) if (!send(member, "SIGKILL")) refused.add(identityOf(member));
      } else {
        for (const member of members) {
          const identity = identityOf(member);
          // Children forked meanwhile get it too.
          if (signalled.has(identity)) continue;
          signalled.add(identity);
          if (!send(member, "SIGTERM")) refused.add(identity);
          // A stopped process gets TERM only once it runs again.
          send(member, "SIGCONT");
        }
      }
      await pause(Math.max(1, giveUpAt === undefined ? Math.min(waitMs, killAt - now) : waitMs), woken);
      waitMs = Math.min(slowestPollMs, waitMs * 2);
      members = this.scan();
    }
  }

  #isLabelled(pid: number): boolean {
    const label = labelOf(pid);
    const { instance, slot, record, trust } = this.#identity;
    if (label?.instance !== instance || label.slot !== slot || !isSameProcess(label, this.#identity)) return false;
    return trust.mayEnd(label, pid, record);
  }

  #named(members: readonly ProcEntry[]): string {
    const pids = members.map(({ pid }) => pid).join(", ");
    return `${this.#identity.slot} (${processName(this.#identity)}): process ${pids}`;
  }
}

function identityOf({ pid, startTime }: ProcEntry): string {
  return `${pid} ${startTime}`;
}

/**
 * False where this user may not signal it. Between the scan and the signal a pid could be reused: its start time is read
 * once more.
 */
function send({ pid, startTime }: ProcEntry, signal: NodeJS.Signals): boolean {
  if (startTimeOf(pid) !== startTime) return true;
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (errorCode(error) === "EPERM") return false;
    if (errorCode(error) !== "ESRCH") throw error;
  }
  return true;
}

/** Ends early when `signal` aborts; once it has aborted, it is a plain wait. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return await delay(ms);
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
