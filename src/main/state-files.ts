import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { knownPart } from "../api/known-part.ts";
import { demandSchema } from "../api/status.ts";
import { errorCode } from "../lib/error-code.ts";
import { readTextOrNothing } from "../lib/read-text.ts";
import { parseJson } from "../lib/json.ts";

/** The JSON files of a flat directory, each as its text; none where there is none, undefined where nobody may look. */
export async function filesIn(directory: string): Promise<readonly string[] | undefined> {
  try {
    const names = (await readdir(directory)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
    // One that goes meanwhile says nothing.
    return await Promise.all(names.map((name) => readTextOrNothing(join(directory, name))));
  } catch (error) {
    return errorCode(error) === "ENOENT" ? [] : undefined;
  }
}

/**
 * Whether a gateway lives that tells its demand in this state directory; undefined where nobody may look. `now` in
 * milliseconds since the epoch.
 */
export async function hasLiveGateway(stateDir: string, now: number): Promise<boolean | undefined> {
  const { isLive } = await import("../store/demand.ts");
  const demands = await filesIn(join(stateDir, "demand"));
  return demands?.some((text) => {
    const demand = knownPart(demandSchema, parseJson(text));
    return demand !== undefined && isLive(demand, now);
  });
}
