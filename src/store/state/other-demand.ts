import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import { demandSchema, type Demand } from "../../api/status.ts";
import { parseJson } from "../../lib/json.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { OtherDemand } from "../store.ts";
import { LivenessWatch, type Clocks } from "./liveness.ts";

/** What was read is used again for this long: a page asks for each slot of many. */
const freshMs = 500;

/** `read`: the demand of other gateways by the name of its record. */
export function otherDemand(read: () => ReadonlyMap<string, Demand>, clocks: Clocks = {}): OtherDemand {
  const liveness = new LivenessWatch(clocks);
  let found: readonly Demand[] = [];
  let readMs = -Infinity;
  return {
    list() {
      if (steadyNow() - readMs < freshMs) return found;
      readMs = steadyNow();
      const present = read();
      liveness.note(present);
      found = [...present].flatMap(([name, demand]) => (liveness.of(name, demand) === "live" ? [demand] : []));
      return found;
    },
  };
}

/** Of the gateways of a state directory. */
export function otherDemandFiles(stateDir: string, gateway: string): OtherDemand {
  const directory = join(stateDir, "demand");
  return otherDemand(() => {
    const found = new Map<string, Demand>();
    for (const file of filesIn(directory)) {
      if (!file.endsWith(".json") || file.startsWith(".") || file === `${gateway}.json`) continue;
      const demand = knownPart(demandSchema, parseJson(textOf(join(directory, file))));
      if (demand !== undefined) found.set(file, demand);
    }
    return found;
  });
}

/** Empty where the directory cannot be read: these figures are for people alone. */
function filesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** Empty where its gateway has just ended. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
