import { tailLogs, type LogLine, type TailOptions } from "./logs.ts";

/** Where the lines of a slot's engines are. */
export interface LogPlace {
  readonly stateDir: string;
  /** The kind of the slot's runtime; undefined: the slot never ran. */
  readonly runtime: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** As `tailLogs`, from wherever the slot's runtime leaves its lines. Rejects with the API server's refusal. */
export async function* tailEngineLogs(
  { stateDir, runtime, env }: LogPlace,
  slot: string,
  options: TailOptions,
): AsyncIterable<LogLine> {
  if (runtime !== "kubernetes") {
    yield* tailLogs(stateDir, slot, options);
    return;
  }
  // Imported only here: most gateways have no cluster.
  const { connect } = await import("../../kubernetes/connection.ts");
  const { openApiClient } = await import("../../kubernetes/client.ts");
  const { tailPodLogs } = await import("../kubernetes/pod-logs.ts");
  using client = openApiClient(await connect(env));
  yield* tailPodLogs(client, slot, options);
}
