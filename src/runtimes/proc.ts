import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** A process as /proc shows it (proc(5)). */
export interface ProcEntry {
  readonly pid: number;
  readonly group: number;
  readonly session: number;
  readonly startTime: string;
}

/** Undefined when the process is gone or a zombie. */
export function readProc(pid: number): ProcEntry | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  const [state, , group, session, ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  // Fields count from 3 after the name: state 3, group 5, session 6, start time 22.
  const startTime = rest[15];
  if (state === "Z" || state === "X" || startTime === undefined) return undefined;
  return { pid, group: Number(group), session: Number(session), startTime };
}

export function listProcs(): ProcEntry[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProc(Number(name)))
    .filter((entry) => entry !== undefined);
}

/** One variable of the environment a process was started with; undefined when it may not be read. */
export function environmentOf(pid: number): ReadonlyMap<string, string> | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/environ`, "utf8");
    return new Map(
      text.split("\0").map((pair) => {
        const at = pair.indexOf("=");
        return [pair.slice(0, at), pair.slice(at + 1)] as const;
      }),
    );
  } catch {
    return undefined;
  }
}

/** Seconds since boot at which the kernel says the process began, as wall-clock time. */
export function startedAt(startTime: string): Date {
  const bootSeconds = Number(/^btime (\d+)$/m.exec(readFileSync("/proc/stat", "latin1"))?.[1] ?? 0);
  // USER_HZ is 100 on every architecture Linux serves to user space.
  return new Date((bootSeconds + Number(startTime) / 100) * 1000);
}

/** Inodes of sockets that listen on the port, on any address, IPv4 and IPv6. */
export function listeningInodes(port: number): ReadonlySet<string> {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  const inodes = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    let text: string;
    try {
      text = readFileSync(table, "latin1");
    } catch {
      continue;
    }
    if (!text.includes(`:${wanted} `)) continue;
    for (const line of text.split("\n")) {
      const fields = line.trim().split(/\s+/);
      // sl, local_address, rem_address, st (0A: LISTEN), …, inode
      if (fields[3] === "0A" && fields[1]?.endsWith(`:${wanted}`) === true && fields[9] !== undefined)
        inodes.add(fields[9]);
    }
  }
  return inodes;
}

export function ownsSocket(pid: number, inodes: ReadonlySet<string>): boolean {
  let names: string[];
  try {
    names = readdirSync(`/proc/${pid}/fd`);
  } catch {
    return false;
  }
  for (const name of names) {
    try {
      const match = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${name}`));
      if (match?.[1] !== undefined && inodes.has(match[1])) return true;
    } catch {
      // The descriptor was closed meanwhile.
    }
  }
  return false;
}

export function pidNamespace(): string {
  return readlinkSync("/proc/self/ns/pid");
}
