import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { chat, manifest, writeSlot } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";

const flags = ["--tell-model", "--fail-model", "broken", "--token-ms", "30"];
const model = `[model]
default = "a"
on_request = ["b", "c", "broken"]
max_wait_seconds = 2
min_residency_seconds = 0
[concurrency]
max = 4
`;

const prepare = (directories: { configDir: string }): Promise<void> =>
  writeSlot(directories, "coder", manifest(flags, model));

/** Requests each of these in turn, and resolves with the answers that are not that model's. */
async function wrongAnswers(requests: readonly (readonly [RunningBerth, model: string])[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const [berth, named] of requests) {
    const [status, text] = await chat(berth, named);
    if (status !== 200 || text !== named.replace("coder:", "")) wrong.push(`${named}: ${status} ${text}`);
  }
  return wrong;
}

describe("a slot whose model requests choose", () => {
  it("answers each request by the model that it names, and loses none, while operators are killed in the middle of swaps", async () => {
    await using berth = await startBerth({ prepare });
    await berth.state("coder", "ready");
    let isOver = false;
    const killing = (async (): Promise<number> => {
      let killed = 0;
      while (!isOver && killed < 2) {
        await until("a swap is under way", async () => isOver || (await berth.slot("coder"))["state"] === "unloading");
        if (isOver) break;
        const pid = operatorPid(berth);
        process.kill(pid, "SIGKILL");
        killed += 1;
        await until("another operator runs", () => isOver || operatorPid(berth) !== pid);
      }
      return killed;
    })();
    const clients = ["a", "b", "c", "coder:b"].map((named) =>
      wrongAnswers(Array.from({ length: 15 }, () => [berth, named] as const)),
    );
    const wrong = await Promise.all(clients);
    isOver = true;
    assert.ok((await killing) > 0, "no swap was seen");
    assert.deepEqual(wrong.flat(), [], berth.log());
  });

  it("answers each request by its model where two gateways request different models", async () => {
    await using berth = await startBerth({ prepare });
    const { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS } = berth.env;
    const shared = { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS };
    await using other = await startBerth({ args: ["serve"], env: shared });
    await until("the second gateway answers", async () => (await fetch(`${other.url}/readyz`)).ok);
    for (const gateway of [berth, other]) await gateway.state("coder", "ready", "idle");
    // Each request of one client undoes the swap of the other.
    const wrong = await Promise.all(
      (
        [
          [berth, "a"],
          [other, "b"],
        ] as const
      ).map((request) => wrongAnswers(Array.from({ length: 5 }, () => request))),
    );
    assert.deepEqual(wrong.flat(), []);
  });

  it("keeps no other request waiting for a model that cannot be loaded, and reports the cause to that model's clients", async () => {
    await using berth = await startBerth({ prepare });
    await berth.state("coder", "ready");
    const broken = later(chat(berth, "broken"));
    assert.deepEqual(await wrongAnswers(["b", "a", "b", "a"].map((named) => [berth, named] as const)), []);
    assert.deepEqual(await broken, [503, "slot.failed"]);
    const models = await berth.get("/models");
    assert.match(JSON.stringify(models), /"id":"broken".*"failed":true,"exit_code":3,"reason":"Exited"/);
  });

  it("swaps the embedded engine between two models, on demand", async () => {
    await using berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        for (const ref of ["one", "two"]) await writeTinyModel(join(modelsDir, `${ref}.gguf`));
        await writeFile(
          join(configDir, "slots/coder.toml"),
          'load = "onDemand"\n[model]\ndefault = "one"\non_request = ["two"]\nmin_residency_seconds = 0\n',
        );
      },
    });
    await berth.state("coder", "offline");
    for (const named of ["two", "coder"]) {
      assert.equal((await chat(berth, named))[0], 200, named);
      assert.equal((await berth.slot("coder"))["model"], named === "coder" ? "one" : named);
    }
  });
});
