import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { until } from "../support/until.ts";
import { ask, list, post, record } from "../support/openai.ts";
import { keyOf, processes, processOf, startWithLlamaServer } from "./fixture.ts";

test("embeddings and reranking: one slot, two real llama-server processes", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
    await writeTinyModel(join(modelsDir, "ranker.gguf"), { ranker: true, name: "ranker" });
    await writeFile(join(configDir, "slots/embed.toml"), '[model]\ndefault = "tiny-embed"\nrerank = "ranker"\n');
  });
  const slot = await berth.state("embed", "ready");
  assert.deepEqual([...processes(slot).keys()].toSorted(), ["main", "rerank"]);
  assert.deepEqual(slot["capabilities"], ["embeddings", "rerank"]);

  await t.test("an engine's 500 for a mistake in the inputs is reported as 400, with its reason", async () => {
    for (const [input, said] of [
      [{ a: 1 }, /^the input must be a text/],
      ["the and of ".repeat(3000), /^request \(\d+ tokens\) exceeds the available context size \(\d+ tokens\)/],
    ] as const) {
      const response = await post(berth.url, "/v1/embeddings", { model: "embed", input });
      const error = record(record(await response.json())["error"]);
      assert.deepEqual([response.status, error["code"]], [400, "dispatch.rejected"]);
      assert.match(String(error["message"]), said);
    }
  });

  await t.test("the second process ranks", async () => {
    const documents = ["one", "two", "three"];
    const asked = { model: "embed", query: "which", documents, top_n: 2, return_documents: true };
    const body = await ask(berth.url, "/v1/rerank", asked);
    assert.equal(body["model"], "embed");
    const results = list(body["results"]);
    assert.equal(results.length, 2);
    assert.ok(Number(results[0]?.["relevance_score"]) >= Number(results[1]?.["relevance_score"]));
    for (const { index, document } of results) assert.deepEqual(document, { text: documents[Number(index)] });
    const { endpoint } = processOf(await berth.slot("embed"), "rerank");
    const answer = await fetch(`${endpoint}/v1/rerank`, {
      method: "POST",
      headers: { ...(await keyOf(berth, "embed", "rerank")), "content-type": "application/json" },
      body: JSON.stringify({ model: "ranker", query: "which", documents }),
    });
    const whole = list(record(await answer.json())["results"]);
    assert.deepEqual(new Set(whole.map(({ index }) => index)), new Set([0, 1, 2]));
  });

  await t.test("a process that dies alone is restarted alone", async () => {
    const before = await berth.slot("embed");
    process.kill(processOf(before, "rerank").pid, "SIGKILL");
    await until("ranking is back", async () => {
      const now = await berth.slot("embed");
      const rerank = processes(now).get("rerank");
      return (
        ["ready", "idle"].includes(String(now["state"])) &&
        rerank !== undefined &&
        rerank.pid !== processOf(before, "rerank").pid
      );
    });
    const after = await berth.slot("embed");
    assert.equal(processOf(after).pid, processOf(before).pid);
    assert.equal(after["restarts"], 1);
    assert.equal(after.last_error?.reason, "Signalled");
    await ask(berth.url, "/v1/embeddings", { model: "embed", input: "hello" });
    await ask(berth.url, "/v1/rerank", { model: "embed", query: "which", documents: ["one"] });
  });
});
