import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

async function started(): Promise<RunningBerth> {
  const coder = `engine = "custom"
command = [${JSON.stringify(process.execPath)}, "--disable-warning=ExperimentalWarning", ${JSON.stringify(engine)}]
`;
  const berth = await startBerth({ prepare: ({ configDir }) => writeFile(join(configDir, "slots/coder.toml"), coder) });
  await berth.state("coder", "ready", "idle");
  // From here on nothing but the deletion has the operator write.
  await until("its memory is told", async () => (await berth.slot("coder"))["memory"] !== null);
  return berth;
}

async function isThere({ url }: RunningBerth): Promise<boolean> {
  return (await fetch(`${url}/api/slots/coder`)).ok;
}

describe("state that is deleted while the operator runs", () => {
  const deletions = { "one slot's file": "slots/coder.json", "the directory of slots": "slots" };
  for (const [what, path] of Object.entries(deletions)) {
    it(`is written again within seconds, and health says so (${what})`, async () => {
      await using berth = await started();
      const before = await berth.slot("coder");
      await rm(join(berth.stateDir, path), { recursive: true, maxRetries: 50, retryDelay: 10 });
      await until("the gateway misses it, or it is there again", async () => {
        const isBack = existsSync(join(berth.stateDir, "slots/coder.json"));
        return isBack || !(await isThere(berth));
      });
      await until("it is there again", () => isThere(berth));
      const after = await berth.slot("coder");
      assert.deepEqual([after["generation"], after["processes"]], [before["generation"], before["processes"]]);
      await until("health tells", async () =>
        JSON.stringify(await berth.get("/api/health/system")).includes("StateDeleted"),
      );
      // Only the look of each second says so.
      await until("the log tells", () =>
        /the state of .*coder.* was deleted while the operator runs; writing it again/.test(berth.log()),
      );
    });
  }

  it("is written again: models and upstreams, records of engines, demand, the name of the installation", async () => {
    await using berth = await started();
    const instance = await readFile(join(berth.stateDir, "instance"), "utf8");
    for (const path of ["registry.json", "processes", "demand", "instance"])
      // The gateway may write its demand meanwhile.
      await rm(join(berth.stateDir, path), { recursive: true, maxRetries: 50, retryDelay: 10 });
    for (const path of ["registry.json", "processes/coder.main.json", "demand", "instance"])
      await until(`${path} is there again`, () => existsSync(join(berth.stateDir, path)));
    assert.equal(await readFile(join(berth.stateDir, "instance"), "utf8"), instance);
    assert.equal(await berth.stop("SIGINT"), 0);
  });
});
