import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

function manifest(edit: number): string {
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", engine];
  return JSON.stringify({ engine: "custom", command, stopSeconds: 3600, env: { EDIT: String(edit) } });
}

describe("an operator without a gateway", () => {
  it("restarts an edited engine at once: no gateway has requests to wait for", async () => {
    await using berth = await startBerth({
      args: ["operator", "--stop-engines"],
      prepare: ({ configDir }) => writeFile(join(configDir, "slots", "solo.yaml"), manifest(0)),
    });
    const pid = (other?: number): Promise<number> =>
      until("solo is ready", async () => {
        const status = (await readPublished(berth.stateDir, "solo"))?.status;
        const found = status?.state === "ready" ? status.processes[0]?.pid : undefined;
        return found === other ? undefined : found;
      });
    const before = await pid();
    await writeFile(join(berth.configDir, "slots", "solo.yaml"), manifest(1));
    assert.notEqual(await pid(before), before);
  });
});
