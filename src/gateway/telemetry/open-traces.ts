import type { Logger } from "pino";
import type { Config } from "../../api/config.ts";
import type { Traces } from "./traces.ts";

/** Undefined where traces have no receiver: then their modules are not even loaded. */
export async function openTraces(
  { tracesEndpoint, tracesPart }: Pick<Config, "tracesEndpoint" | "tracesPart">,
  { version, instance, log }: { readonly version: string; readonly instance: string; readonly log: Logger },
): Promise<Traces | undefined> {
  if (tracesEndpoint === undefined) return undefined;
  const { Traces: Loaded } = await import("./traces.ts");
  return new Loaded({
    endpoint: tracesEndpoint,
    version,
    instance,
    part: tracesPart,
    onFailing: (message) => log.warn(`traces are dropped: ${message}`),
  });
}
