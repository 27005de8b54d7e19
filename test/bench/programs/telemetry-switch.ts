/**
 * Loaded into the gateway before its program (`--import`): parts of the telemetry that it was started with are off and on
 * in turn while it serves requests, and the processor time of both is compared. Two processes differ by more than
 * telemetry costs, one process does not differ from itself. Nothing of the product knows of it. Each line from the socket
 * BENCH_SWITCH is a `SwitchTrial`, and is answered by its `SwitchPair`s.
 */
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { AccessLog } from "../../../src/gateway/telemetry/access-log.ts";
import { GatewayMetrics } from "../../../src/gateway/telemetry/metrics.ts";
import { RecentRequests } from "../../../src/gateway/telemetry/recent-requests.ts";
import { passedTrace } from "../../../src/gateway/telemetry/trace-context.ts";
import { TraceSampler } from "../../../src/gateway/telemetry/trace-sampler.ts";
import { Traces } from "../../../src/gateway/telemetry/traces.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { switchedParts, type SwitchedPart, type SwitchPair, type SwitchTrial } from "./spec.ts";

const isOn: Record<SwitchedPart, boolean> = { log: true, bodies: true, list: true, traces: true, "all traces": false };

/** The method, of one argument, runs while `mayRun` says so, else `instead`: in both cases at the cost of a call. */
function replace(of: object, method: string, mayRun: () => boolean, instead?: (given: unknown) => unknown): void {
  const real: unknown = Reflect.get(of, method);
  if (typeof real !== "function") throw new Error(`there is no method ${method}`);
  Reflect.set(of, method, function (this: unknown, given: unknown): unknown {
    return mayRun() ? real.call(this, given) : instead?.(given);
  });
}

replace(AccessLog.prototype, "closed", () => isOn.log);
replace(RecentRequests.prototype, "keepBody", () => isOn.bodies);
replace(RecentRequests.prototype, "add", () => isOn.list);
replace(
  Traces.prototype,
  "begin",
  () => isOn.traces,
  (headers) =>
    isRecord(headers) && typeof headers["traceparent"] === "string"
      ? passedTrace({ traceparent: headers["traceparent"] })
      : undefined,
);
replace(
  TraceSampler.prototype,
  "choose",
  () => !isOn["all traces"],
  () => true,
);

/** Requests that began before a switch end after it, and are not counted. */
const settling = 64;
let left = 0;
let onDue: () => void = () => undefined;
const ended: unknown = Reflect.get(GatewayMetrics.prototype, "ended");
if (typeof ended !== "function") throw new Error("there is no method ended");
Reflect.set(GatewayMetrics.prototype, "ended", function (this: unknown, ...given: unknown[]): void {
  left -= 1;
  if (left === 0) onDue();
  Reflect.apply(ended, this, given);
});

function requests(count: number): Promise<void> {
  return new Promise((resolve) => {
    left = count;
    onDue = resolve;
  });
}

/** Microseconds of this process's processor time for a request. */
async function measure(parts: readonly SwitchedPart[], count: number): Promise<number> {
  for (const part of switchedParts) isOn[part] = parts.includes(part);
  await requests(settling);
  const before = process.cpuUsage();
  await requests(count);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

async function run({ off, on, requests: count, pairs }: SwitchTrial): Promise<readonly SwitchPair[]> {
  const found: SwitchPair[] = [];
  while (found.length < pairs) {
    // By chance, so that nothing that repeats itself falls on one side.
    const isOffFirst = Math.random() < 0.5;
    const first = await measure(isOffFirst ? off : on, count);
    const second = await measure(isOffFirst ? on : off, count);
    found.push(isOffFirst ? { off: first, on: second } : { off: second, on: first });
  }
  return found;
}

const path = process.env["BENCH_SWITCH"];
if (path !== undefined) {
  const socket = connect(path);
  socket.unref();
  createInterface({ input: socket }).on("line", (line) => {
    const trial: SwitchTrial = JSON.parse(line);
    void run(trial).then((pairs) => socket.write(`${JSON.stringify(pairs)}\n`));
  });
}
