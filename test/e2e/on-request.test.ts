import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";

/**
 * A DOUBLE of an engine: it answers with the name of its model, after `max_tokens` milliseconds or after `POST /release`,
 * and refuses requests for another one. A model called broken ends it before it listens.
 */
const engine = `import { createServer } from "node:http";
const { MODEL, HOST, PORT } = process.env;
if (MODEL === "broken") process.exit(3);
let release;
const released = new Promise((resolve) => (release = resolve));
createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  if (request.method === "GET") return response.end("{}");
  if (request.url === "/release") return response.end(release());
  const { model, stream, max_tokens: ms } = JSON.parse(text);
  if (model !== MODEL) return response.writeHead(500).end(JSON.stringify({ error: { message: "asked for " + model } }));
  await Promise.race([released, new Promise((resolve) => setTimeout(resolve, ms))]);
  const head = { id: "x", object: "chat.completion", created: 1, model };
  if (!stream) {
    response.setHeader("content-type", "application/json");
    const message = { role: "assistant", content: MODEL };
    return response.end(JSON.stringify({ ...head, choices: [{ index: 0, message, finish_reason: "stop" }] }));
  }
  response.setHeader("content-type", "text/event-stream");
  const chunk = (delta, finish_reason) =>
    "data: " + JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason }] }) + "\\n\\n";
  response.write(chunk({ role: "assistant", content: MODEL }, null));
  setTimeout(() => response.end(chunk({}, "stop") + "data: [DONE]\\n\\n"), 30);
}).listen(Number(PORT), HOST);
`;

interface Directories {
  readonly configDir: string;
  readonly modelsDir: string;
}

async function doubles({ configDir, modelsDir }: Directories, maxWaitSeconds = 2): Promise<void> {
  const program = join(modelsDir, "engine.mjs");
  await writeFile(program, engine);
  await writeFile(
    join(configDir, "slots/coder.toml"),
    `engine = "custom"
command = ["${process.execPath}", "${program}"]
capabilities = ["chat"]
[model]
default = "a"
on_request = ["b", "c", "broken"]
max_wait_seconds = ${maxWaitSeconds}
min_residency_seconds = 0
[concurrency]
max = 4
`,
  );
}

/** `200 a` where the answer is whole and that of model a. */
async function ask(berth: RunningBerth, model: string, isStreamed = false, ms = 30): Promise<string> {
  const response = await fetch(new URL("/v1/chat/completions", berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, stream: isStreamed, max_tokens: ms, messages: [{ role: "user", content: "hello" }] }),
  });
  const text = await response.text();
  const content = /"content":"([^"]*)"/.exec(text.replace('"content":""', ""))?.[1] ?? text.slice(0, 200);
  const isWhole = !isStreamed || text.trimEnd().endsWith("data: [DONE]");
  return `${response.status} ${isWhole ? "" : "cut "}${content}`;
}

function assertRight(answers: readonly string[], ...berths: readonly RunningBerth[]): void {
  const wrong = new Set(answers.filter((answer) => answer !== "right"));
  // Lines of answered requests would hide the others.
  const logs = berths.map((berth) => berth.log().replaceAll(/^.* 200$\n/gm, ""));
  assert.equal(wrong.size, 0, [...wrong, ...logs].join("\n"));
}

async function operatorPid(berth: RunningBerth): Promise<number> {
  const published: unknown = JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8"));
  assert.ok(isRecord(published) && typeof published["pid"] === "number");
  return published["pid"];
}

describe("a slot whose model requests choose", () => {
  it("answers each request by the model that it names, and loses none, while operators are killed in the middle of swaps", async () => {
    await using berth = await startBerth({ prepare: doubles });
    await berth.state("coder", "ready");
    const answers: string[] = [];
    let isOver = false;
    const killing = (async (): Promise<number> => {
      let killed = 0;
      while (!isOver && killed < 4) {
        await until("a swap is under way", async () => isOver || (await berth.slot("coder"))["state"] === "unloading");
        if (isOver) break;
        const pid = await operatorPid(berth);
        process.kill(pid, "SIGKILL");
        killed += 1;
        await until("another operator runs", async () => isOver || (await operatorPid(berth)) !== pid);
      }
      return killed;
    })();
    const clients = ["a", "b", "c", "coder:b"].flatMap((model) =>
      [false, true].map((isStreamed) => ({ model, isStreamed })),
    );
    await Promise.all(
      clients.map(async ({ model, isStreamed }) => {
        for (let request = 0; request < 20; request++) {
          const answer = await ask(berth, model, isStreamed);
          const named = model.replace("coder:", "");
          answers.push(answer === `200 ${named}` ? "right" : `${model}: ${answer}`);
        }
      }),
    );
    isOver = true;
    const killed = await killing;
    assertRight(answers, berth);
    assert.equal(answers.length, 160);
    assert.ok(killed > 0, "no swap was seen");
  });

  it("answers each request by its model where two gateways request different models", async () => {
    await using berth = await startBerth({ prepare: doubles });
    const { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS } = berth.env;
    const shared = { SVC_CONFIG_DIR, SVC_STATE_DIR, SVC_MODELS_DIR, SVC_OPERATOR_PORT, SVC_SLOT_PORTS };
    await using other = await startBerth({ args: ["serve"], env: shared });
    await berth.state("coder", "ready");
    await until("the second gateway answers", async () => (await fetch(`${other.url}/readyz`)).ok);
    await other.state("coder", "ready", "idle");
    const answers: string[] = [];
    const requests = [
      [berth, "a"],
      [other, "b"],
      [berth, "c"],
      [other, "a"],
    ] as const;
    await Promise.all(
      requests.map(async ([gateway, model], index) => {
        for (let turn = 0; turn < 8; turn++) {
          const answer = await ask(gateway, model, (index + turn) % 2 === 0);
          answers.push(answer === `200 ${model}` ? "right" : `${model}: ${answer}`);
        }
      }),
    );
    // One client after the other: each request of one gateway undoes the swap of the other.
    for (let turn = 0; turn < 6; turn++) {
      const [gateway, model] = requests[turn % 2] ?? requests[0];
      const answer = await ask(gateway, model);
      answers.push(answer === `200 ${model}` ? "right" : `${model}: ${answer}`);
    }
    assertRight(answers, berth, other);
    assert.equal(answers.length, 38);
  });

  it("keeps no other request waiting for a model that cannot be loaded, and reports the cause to that model's clients", async () => {
    await using berth = await startBerth({ prepare: doubles });
    await berth.state("coder", "ready");
    const broken = ask(berth, "broken");
    const others: string[] = [];
    for (let round = 0; round < 6; round++) others.push(await ask(berth, ["b", "a"][round % 2] ?? "a"));
    assert.deepEqual(others, ["200 b", "200 a", "200 b", "200 a", "200 b", "200 a"]);
    assert.match(await broken, /^503 .*slot\.failed/);
    const models = await berth.get("/models");
    assert.match(JSON.stringify(models), /"id":"broken".*"failed":true,"exit_code":3,"reason":"Exited"/);
  });

  it("forgets a request whose client has given up: its model is not loaded", async () => {
    // However slow this machine is, the client gives up before the operator has the model leave for it.
    await using berth = await startBerth({ prepare: (directories) => doubles(directories, 3600) });
    await berth.state("coder", "ready");
    const busy = later(ask(berth, "a", false, 3_600_000));
    await until("it is answered", async () => Number((await berth.slot("coder"))["in_flight"]) > 0);
    const leaving = new AbortController();
    const left = later(
      fetch(new URL("/v1/chat/completions", berth.url), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "c", max_tokens: 1, messages: [{ role: "user", content: "hello" }] }),
        signal: leaving.signal,
      }),
    );
    await until("it waits", async () => Number((await berth.slot("coder"))["held"]) > 0);
    leaving.abort();
    await assert.rejects(left);
    await until("nobody waits", async () => Number((await berth.slot("coder"))["held"]) === 0);
    const { endpoint } = await berth.slot("coder");
    assert.equal((await fetch(new URL("/release", String(endpoint)), { method: "POST" })).status, 200);
    assert.equal(await busy, "200 a");
    // A swap to another model is the next one.
    assert.equal(await ask(berth, "b"), "200 b");
    assert.doesNotMatch(berth.log(), /leaves for c/);
  });

  it("swaps the embedded engine between two models, on demand", async () => {
    await using berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        await mkdir(modelsDir, { recursive: true });
        for (const ref of ["one", "two"]) await writeTinyModel(join(modelsDir, `${ref}.gguf`));
        await writeFile(
          join(configDir, "slots/coder.toml"),
          'load = "onDemand"\n[model]\ndefault = "one"\non_request = ["two"]\nmin_residency_seconds = 0\n',
        );
      },
    });
    await berth.state("coder", "offline");
    for (const model of ["two", "one", "two", "coder"]) {
      assert.match(await ask(berth, model), /^200 /, model);
      assert.equal((await berth.slot("coder"))["model"], model === "coder" ? "one" : model);
    }
    assert.match(await ask(berth, "three"), /^404 /);
  });
});
