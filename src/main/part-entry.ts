/**
 * The process of the operator or of the gateway below `berth up`, as the command of that name. It does not load the
 * command line, which takes 1 to 2 MiB of each.
 */
import { runEntry } from "./entry.ts";

/** The process's only argument. */
export type PartCommand = "operator" | "serve";

const { env } = process;

await runEntry(async () => {
  if (process.argv[2] === ("operator" satisfies PartCommand)) {
    const { operator } = await import("./operator.ts");
    return await operator({ env, paused: false, stopsEngines: true });
  }
  const { serve } = await import("./serve.ts");
  return await serve({ env });
});
