import { readFile } from "node:fs/promises";
import { isRecord } from "../../../src/lib/record.ts";
import { parseJson } from "../../../src/lib/json.ts";

/** One Slot that was applied, by the clock of the day in milliseconds. */
export interface Sample {
  readonly name: string;
  /** The API server has answered the apply. */
  readonly appliedAt: number;
  /** A watch of Pods told of its Pod. */
  readonly podSeenAt: number;
}

interface Line {
  readonly what: string;
  readonly at: number;
  readonly ms: number;
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly isNew: boolean;
}

/** Where the time of one sample went, in milliseconds, one part after the other. */
export interface Parts {
  readonly name: string;
  readonly whole: number;
  /** Until the operator's watch had the Slot. */
  readonly watch: number;
  /** Until the first call for it: the queue, what is gathered, the plan. */
  readonly decide: number;
  /** Calls before the one that makes the Pod, which wait for one another. */
  readonly ask: number;
  /** The call that makes the Pod. */
  readonly make: number;
  /** Until another watch told of the Pod; negative where the watch was faster than the answer. */
  readonly told: number;
  /** Meanwhile: what kept the operator's event loop, and its garbage collections. */
  readonly stalled: number;
  readonly garbage: number;
  /** Meanwhile: all calls of the operator, how many of them for this Slot, and how many opened a connection. */
  readonly calls: number;
  readonly own: number;
  readonly opened: number;
}

/** What test/support/kube/call-trace.ts has written, as the parts of each sample. */
export async function partsOf(file: string, samples: readonly Sample[]): Promise<readonly Parts[]> {
  const lines = (await readFile(file, "utf8")).split("\n").flatMap((line) => readLine(line) ?? []);
  return samples.map((sample) => part(lines, sample));
}

function part(lines: readonly Line[], { name, appliedAt, podSeenAt }: Sample): Parts {
  const during = lines.filter(({ at, ms }) => at + ms >= appliedAt - 1000 && at <= podSeenAt);
  const seen = during.find((line) => line.what === "seen" && line.name === name)?.at ?? appliedAt;
  const pod = `/berth-${name}-main-0`;
  // The path of a creation names nothing: one Slot is applied at a time, and the last Pod made is this one's.
  const make = during.findLast(({ method, path, at }) => at >= seen && method === "POST" && /\/pods(\?|$)/.test(path));
  const isOf = ({ path }: Line): boolean => path.includes(pod) || new RegExp(`/slots/${name}(/|\\?|$)`).test(path);
  const own = during.filter((line) => line.what === "call" && (line === make || isOf(line)));
  const first = own[0]?.at ?? podSeenAt;
  const made = make === undefined ? podSeenAt : make.at + make.ms;
  const within = during.filter(({ at, ms }) => at + ms >= appliedAt);
  const sum = (what: string): number =>
    within.reduce(
      (all, line) =>
        line.what === what ? all + Math.min(podSeenAt, line.at + line.ms) - Math.max(appliedAt, line.at) : all,
      0,
    );
  const calls = within.filter(({ what }) => what === "call");
  return {
    name,
    whole: podSeenAt - appliedAt,
    watch: seen - appliedAt,
    decide: first - seen,
    ask: (make?.at ?? first) - first,
    make: make?.ms ?? Number.NaN,
    told: podSeenAt - made,
    stalled: sum("stall"),
    garbage: sum("garbage"),
    calls: calls.length,
    own: own.length,
    opened: calls.filter(({ isNew }) => isNew).length,
  };
}

function readLine(text: string): Line | undefined {
  const value = parseJson(text);
  if (!isRecord(value)) return undefined;
  const { what, at, ms, name, method, path, isNew } = value;
  return {
    what: String(what),
    at: Number(at),
    ms: typeof ms === "number" ? ms : 0,
    name: String(name),
    method: String(method),
    path: String(path),
    isNew: isNew === true,
  };
}

export function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(values.length * share) - 1)] ?? Number.NaN;
}
