import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from "node:fs";
import { endianness } from "node:os";
import { isShortage } from "../../lib/error-code.ts";
import { readProc, type ProcEntry } from "../../lib/process-identity.ts";

// A process or socket that cannot be read for want of a descriptor or memory is not gone: reads throw then.

/** Every live process of this pid namespace. */
export function listProcs(): ProcEntry[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProc(Number(name)))
    .filter((entry) => entry !== undefined);
}

/** The environment of a process at its start; undefined without our label, or when unreadable. */
export function environmentOf(pid: number): ReadonlyMap<string, string> | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(`/proc/${pid}/environ`);
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
  if (!bytes.includes("BERTH_INSTANCE=")) return undefined;
  return new Map(
    bytes
      .toString()
      .split("\0")
      .map((pair) => {
        const at = pair.indexOf("=");
        return [pair.slice(0, at), pair.slice(at + 1)] as const;
      }),
  );
}

/** The user of a process; undefined when it is gone, or has more than one user, as a set-user-ID program does. */
export function userOf(pid: number): number | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/status`, "latin1");
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
  // Real, effective, saved, file system.
  const ids = /^Uid:\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$/m.exec(text)?.slice(1) ?? [];
  const [first, ...others] = ids.map(Number);
  return first !== undefined && others.every((id) => id === first) ? first : undefined;
}

/** The kernel's start time of a process, in seconds since boot, as wall-clock time. */
export function startedAt(startTime: string): Date {
  const bootSeconds = Number(/^btime (\d+)$/m.exec(readFileSync("/proc/stat", "latin1"))?.[1] ?? 0);
  // USER_HZ is 100 on every architecture Linux serves to user space.
  return new Date((bootSeconds + Number(startTime) / 100) * 1000);
}

/** The places of known listening sockets: `/proc/PID/fd/N` by inode. */
const openAt = new Map<string, string>();
const listeningOn = new Map<number, { readonly inodes: ReadonlySet<string>; readonly readAt: number }>();
/** A program of the same user may start to share a port (SO_REUSEPORT): the table is read again after this time. */
const knownForMs = 60_000;

/** 127.0.0.1 in the kernel's tables: words in the machine's byte order. */
const loopback = endianness() === "LE" ? "0100007F" : "7F000001";
const mapped = `0000000000000000${endianness() === "LE" ? "FFFF0000" : "0000FFFF"}`;
function portOf(port: number): string {
  return `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Addresses whose listeners 127.0.0.1 reaches: itself and any, of IPv4 and IPv6. */
const reached = [loopback, "00000000", mapped + loopback, "0".repeat(32)];

/**
 * Inodes of sockets that listen on the port, among those that 127.0.0.1 reaches. To list listeners the kernel walks
 * every bucket of its table of connections, which costs milliseconds; but a listening socket listens as long as it is
 * open, and one readlink shows that for a socket with a known owner.
 */
export function listeningInodes(port: number): ReadonlySet<string> {
  const known = knownListeners(port);
  if (known !== undefined) return known;
  const inodes = readListeningInodes(port);
  if (inodes.size > 0) listeningOn.set(port, { inodes, readAt: performance.now() });
  else listeningOn.delete(port);
  return inodes;
}

/** The known listeners, if all are still open; undefined: only the table can decide. */
export function knownListeners(port: number): ReadonlySet<string> | undefined {
  const before = listeningOn.get(port);
  if (before === undefined || performance.now() - before.readAt > knownForMs) return undefined;
  return [...before.inodes].every(isOpen) ? before.inodes : undefined;
}

/** Whether a known listener on the port is still open, by one readlink however many the engine has. */
export function hasKnownListener(port: number): boolean {
  const before = listeningOn.get(port);
  if (before === undefined || performance.now() - before.readAt > knownForMs) return false;
  for (const inode of before.inodes) if (isOpen(inode)) return true;
  return false;
}

function isOpen(inode: string): boolean {
  const path = openAt.get(inode);
  if (path === undefined) return false;
  try {
    if (socketAt(path) === inode) return true;
  } catch {
    // The process, or its descriptor, is gone.
  }
  openAt.delete(inode);
  return false;
}

function readListeningInodes(port: number): ReadonlySet<string> {
  const suffix = portOf(port);
  const wanted = new Set(reached.map((address) => address + suffix));
  const inodes = new Set<string>();
  for (const table of tablesOf("/proc/net")) {
    for (const line of listeners(table)) {
      // sl, local_address, rem_address, st, …, inode
      const [, local, , , , , , , , inode] = line;
      if (local !== undefined && wanted.has(local) && inode !== undefined) inodes.add(inode);
    }
  }
  return inodes;
}

/** Ports with a listener in the network namespace of that `net` directory; undefined where unreadable. */
export function listeningPorts(net: string): ReadonlySet<number> | undefined {
  if (!existsSync(`${net}/tcp`)) return undefined;
  const ports = new Set<number>();
  for (const table of tablesOf(net)) {
    for (const [, local] of listeners(table)) ports.add(Number.parseInt(local?.split(":").at(-1) ?? "", 16));
  }
  return ports;
}

/**
 * The user whose socket listens on that port of 127.0.0.1; undefined without one, or where it is unknown. The kernel gives
 * its table in pieces of 4 KiB, and skips a socket where others close between two of them: a missing socket is looked for
 * again.
 */
export function loopbackListenerUid(port: number): number | undefined {
  const address = loopback + portOf(port);
  for (let tries = 0; tries < 5; tries++)
    for (const fields of listeners("/proc/net/tcp")) if (fields[1] === address) return Number(fields[7]);
  return undefined;
}

/** Without the table of IPv6 where its counters show that it is empty: walking it costs 20 ms all the same. */
function tablesOf(net: string): readonly string[] {
  let counts = "";
  try {
    counts = readFileSync(`${net}/sockstat6`, "latin1");
  } catch {
    // Without IPv6 its table does not exist.
  }
  return /^TCP6: inuse 0$/m.test(counts) ? [`${net}/tcp`] : [`${net}/tcp`, `${net}/tcp6`];
}

const listening = "0A";

/**
 * The kernel lists listening sockets before all others (tcp_seq_next in net/ipv4/tcp_ipv4.c): reading stops at the
 * first other one, so that a thousand open streams do not slow it down.
 */
function* listeners(table: string): Iterable<readonly string[]> {
  let file: number;
  try {
    file = openSync(table, "r");
  } catch (error) {
    if (isShortage(error)) throw error;
    // No IPv6 here.
    return;
  }
  try {
    const buffer = Buffer.alloc(4096);
    let rest = "";
    let isHeader = true;
    for (;;) {
      const length = readSync(file, buffer);
      const lines = (rest + buffer.toString("latin1", 0, length)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (isHeader) {
          isHeader = false;
          continue;
        }
        const fields = line.trim().split(/\s+/);
        if (fields[3] !== listening) return;
        yield fields;
      }
      if (length === 0) return;
    }
  } finally {
    closeSync(file);
  }
}

/** Whether the process holds one of these sockets open. */
export function ownsSocket(pid: number, inodes: ReadonlySet<string>): boolean {
  const directory = `/proc/${pid}/fd/`;
  for (const inode of inodes) if (openAt.get(inode)?.startsWith(directory) === true && isOpen(inode)) return true;
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    if (isShortage(error)) throw error;
    return false;
  }
  for (const name of names) {
    try {
      const path = directory + name;
      const inode = socketAt(path);
      if (inode === undefined || !inodes.has(inode)) continue;
      openAt.set(inode, path);
      return true;
    } catch {
      // The descriptor was closed meanwhile.
    }
  }
  return false;
}

/** Inode of a descriptor's socket, undefined for other files. */
function socketAt(path: string): string | undefined {
  return /^socket:\[(\d+)\]$/.exec(readlinkSync(path))?.[1];
}
