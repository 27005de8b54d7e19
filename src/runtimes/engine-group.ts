import { setTimeout as delay } from "node:timers/promises";
import type { ProcessRole } from "../api/names.ts";
import type { ProcessRecord } from "../api/process-record.ts";
import { errorCode } from "../lib/error-code.ts";
import { startTimeOf, type ProcEntry } from "../lib/process-identity.ts";
import { labelOf, type Trust } from "./label.ts";
import { listProcs, ownsSocket } from "./proc.ts";
import type { RemoveOptions } from "./runtime.ts";

const firstLookMs = 5;
const slowestLookMs = 100;
/** A process that stays this long after KILL hangs in the kernel: waiting on helps nobody. */
const killedMs = 30_000;

export interface GroupIdentity {
  readonly instance: string;
  readonly slot: string;
  readonly role: ProcessRole;
  /** What is on record of it. */
  readonly record: ProcessRecord | undefined;
  readonly trust: Trust;
}

/**
 * All processes of one engine: its leader, whoever is in the leader's session, and whoever carries its label, wherever
 * it went, and is of a user that engines run as. A pid that was proven once stays proven with its start time, also when
 * its parent ends before it.
 * Nothing else is ever signalled.
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

  /** A fresh look at every process of this machine. */
  look(): ProcEntry[] {
    const entries = listProcs().filter(({ pid }) => pid !== process.pid);
    const session = new Set(this.#sessionIn(entries));
    return this.#prove(entries.filter((entry) => session.has(entry) || this.#isLabelled(entry.pid)));
  }

  /**
   * Whether the engine holds each of these sockets: a program of the same user may share a port with it and be given
   * some of its connections. The leader nearly always holds them; only else is every process looked at.
   */
  holds(inodes: ReadonlySet<string>): boolean {
    const leader = this.#leader;
    if (leader === undefined) return false;
    const others = [...inodes].map((inode) => new Set([inode])).filter((inode) => !ownsSocket(leader.pid, inode));
    if (others.length === 0) return true;
    const kin = this.#kin();
    return others.every((inode) => kin.some(({ pid }) => ownsSocket(pid, inode)));
  }

  /**
   * The leader, its session and what descends from them. Nobody else can become one of these, while a label can be
   * copied.
   */
  #kin(): ProcEntry[] {
    const leader = this.#leader;
    const entries = listProcs();
    if (!entries.some(({ pid, startTime }) => pid === leader?.pid && startTime === leader.startTime)) return [];
    const kin = entries.filter(({ pid, session }) => pid === leader?.pid || session === leader?.pid);
    const pids = new Set(kin.map(({ pid }) => pid));
    for (let found = kin; found.length > 0;) {
      found = entries.filter(({ pid, parent }) => pids.has(parent) && !pids.has(pid));
      for (const entry of found) {
        pids.add(entry.pid);
        kin.push(entry);
      }
    }
    return kin;
  }

  /** Those proven without reading what each process of this machine carries, which takes as long again. */
  #quickLook(): ProcEntry[] {
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
   * TERM to each, KILL to what is left after `stopSeconds` or on abort. Resolves once a look finds none; rejects when
   * one is still there 30 s after KILL, and when `closing` aborts: whoever comes next may have started the slot's next
   * engine by then, which carries the same label.
   */
  async end({ stopSeconds, signal }: RemoveOptions, closing: AbortSignal): Promise<void> {
    const woken = signal === undefined ? closing : AbortSignal.any([signal, closing]);
    const killAt = performance.now() + stopSeconds * 1000;
    const told = new Set<string>();
    let giveUpAt: number | undefined;
    let waitMs = firstLookMs;
    // The engine itself is told at once, then everything is looked at.
    let members = this.#quickLook();
    if (members.length === 0) members = this.look();
    while (members.length > 0) {
      closing.throwIfAborted();
      const now = performance.now();
      if (signal?.aborted === true || now >= killAt) {
        giveUpAt ??= now + killedMs;
        if (now > giveUpAt) throw new Error(this.#survivors(members));
        for (const member of members) send(member, "SIGKILL");
      } else {
        for (const member of members) {
          // Children that were forked meanwhile are told too.
          if (told.has(`${member.pid} ${member.startTime}`)) continue;
          told.add(`${member.pid} ${member.startTime}`);
          send(member, "SIGTERM");
          // A stopped process gets TERM only once it runs again.
          send(member, "SIGCONT");
        }
      }
      await pause(Math.max(1, giveUpAt === undefined ? Math.min(waitMs, killAt - now) : waitMs), woken);
      waitMs = Math.min(slowestLookMs, waitMs * 2);
      members = this.look();
    }
  }

  #isLabelled(pid: number): boolean {
    const label = labelOf(pid);
    const { instance, slot, role, record, trust } = this.#identity;
    if (label?.instance !== instance || label.slot !== slot || label.role !== role) return false;
    return trust.mayEnd(label, pid, record);
  }

  #survivors(members: readonly ProcEntry[]): string {
    const pids = members.map(({ pid }) => pid).join(", ");
    return `${this.#identity.slot} (${this.#identity.role}): process ${pids} is still there ${killedMs / 1000} s after SIGKILL`;
  }
}

/** Between the look and the signal a pid could be given to another: its start time is read once more. */
function send({ pid, startTime }: ProcEntry, signal: NodeJS.Signals): void {
  if (startTimeOf(pid) !== startTime) return;
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
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
