import assert from "node:assert/strict";
import { it } from "node:test";
import { chat, manifest, writeSlot } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";

const model = `[model]
default = "a"
on_request = ["b", "c"]
max_wait_seconds = 2
min_residency_seconds = 0
[concurrency]
max = 4
`;

/** Requests that model so often; resolves with the answers that are not that model's. */
async function wrongAnswers(berth: RunningBerth, named: string, times: number): Promise<string[]> {
  const wrong: string[] = [];
  for (let turn = 0; turn < times; turn++) {
    const [status, text] = await chat(berth, named);
    if (status !== 200 || text !== named.replace("coder:", "")) wrong.push(`${named}: ${status} ${text}`);
  }
  return wrong;
}

it("requests at two gateways choose the model of a slot: each is answered by its model, while operators are killed amid swaps", async () => {
  await using berth = await startBerth({
    prepare: (directories) => writeSlot(directories, "coder", manifest(["--tell-model", "--token-ms", "30"], model)),
  });
  const { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS } = berth.env;
  const shared = { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS };
  await using other = await startBerth({ args: ["serve"], env: shared });
  await until("the second gateway answers", async () => (await fetch(`${other.url}/readyz`)).ok);
  for (const gateway of [berth, other]) await gateway.state("coder", "ready", "idle");
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
  const wrong = await Promise.all([
    ...["a", "b", "c", "coder:b"].map((named) => wrongAnswers(berth, named, 12)),
    ...["a", "b"].map((named) => wrongAnswers(other, named, 5)),
  ]);
  isOver = true;
  assert.ok((await killing) > 0, "no swap was seen");
  assert.deepEqual(wrong.flat(), [], berth.log());
});
