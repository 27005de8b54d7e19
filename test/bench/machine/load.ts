import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type {
  FloodResult,
  FloodSpec,
  MixedResult,
  MixedSpec,
  RateResult,
  RateSpec,
  StreamsResult,
  StreamsSpec,
} from "../programs/spec.ts";
import { runProgram } from "./process.ts";

const programs = fileURLToPath(new URL("../programs", import.meta.url));

/** Event streams, read and checked by a process of their own. */
export async function loadStreams(
  port: number,
  spec: Partial<StreamsSpec> & Pick<StreamsSpec, "streams">,
  cores?: string,
): Promise<StreamsResult> {
  const whole: StreamsSpec = {
    port,
    model: "bench",
    expectModel: "bench",
    events: 64,
    everyMs: 20,
    padBytes: 0,
    rampMs: 200,
    bytesPerSecond: 0,
    areIdentical: false,
    leaveMs: 0,
    ...spec,
  };
  const result: StreamsResult = JSON.parse(await loaded("streams.ts", whole, cores));
  return result;
}

/** Requests at a fixed rate, by a process of its own. */
export async function loadRate(spec: RateSpec, cores?: string): Promise<RateResult> {
  const result: RateResult = JSON.parse(await loaded("rate.ts", spec, cores));
  return result;
}

/** Wrong tokens, by a process of its own. */
export async function loadFlood(spec: FloodSpec, cores?: string): Promise<FloodResult> {
  const result: FloodResult = JSON.parse(await loaded("flood.ts", spec, cores));
  return result;
}

/** Requests of every kind, by a process of its own. */
export async function loadMixed(spec: MixedSpec): Promise<MixedResult> {
  const result: MixedResult = JSON.parse(await loaded("mixed.ts", spec, undefined));
  return result;
}

async function loaded(program: string, spec: object, cores: string | undefined): Promise<string> {
  return await runProgram(
    [process.execPath, "--disable-warning=ExperimentalWarning", join(programs, program), JSON.stringify(spec)],
    cores,
  );
}

/** How many streams came whole, or what befell the others. */
export function befallen(result: StreamsResult, streams: number): string {
  if (result.whole === streams) return "none";
  const refused = Object.entries(result.refused).map(([status, count]) => `${count} answered ${status}`);
  return [`${result.cut} cut`, `${result.wrong} wrong`, ...refused].join(", ");
}
