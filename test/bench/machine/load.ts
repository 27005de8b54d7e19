import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StreamsResult, StreamsSpec } from "../programs/spec.ts";
import { runProgram } from "./process.ts";

const program = join(fileURLToPath(new URL("../programs", import.meta.url)), "streams.ts");

/** Event streams, read and checked by a separate process. */
export async function loadStreams(
  port: number,
  spec: Partial<StreamsSpec> & Pick<StreamsSpec, "streams">,
): Promise<StreamsResult> {
  const whole: StreamsSpec = { port, model: "bench", expectModel: "bench", events: 64, rampMs: 200, ...spec };
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", program, JSON.stringify(whole)];
  const result: StreamsResult = JSON.parse(await runProgram(command));
  return result;
}

/** "none" where all streams came whole, else the losses by kind. */
export function befallen(result: StreamsResult, streams: number): string {
  if (result.whole === streams) return "none";
  const refused = Object.entries(result.refused).map(([status, count]) => `${count} answered ${status}`);
  return [`${result.cut} cut`, `${result.wrong} wrong`, ...refused].join(", ");
}
