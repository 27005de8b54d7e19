import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";

const double = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const words = ["one ", "two ", "three "];
const event = (content: string): string =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta: { role: "assistant", content } }] })}\n\n`;

/** A DOUBLE of an engine whose streams go on once it has answered `POST /go`: with the last of them it may be ended. */
const gated = `
import { createServer } from "node:http";
const open = [];
createServer((request, response) => {
  if (request.url === "/health") return response.end("ok");
  if (request.url === "/go") {
    return response.end(() => {
      for (const stream of open.splice(0)) stream.end(${JSON.stringify(`${words.slice(1).map(event).join("")}data: [DONE]\n\n`)});
    });
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(${JSON.stringify(event(words[0] ?? ""))});
  open.push(response);
}).listen(Number(process.env.PORT), process.env.HOST);
`;

function manifest(program: string, ...flags: readonly string[]): string {
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", program, ...flags];
  return `engine = "custom"\ncommand = ${JSON.stringify(command)}\n`;
}

async function pidOf(berth: RunningBerth, name: string): Promise<unknown> {
  const { processes } = await berth.slot(name);
  const [first]: unknown[] = Array.isArray(processes) ? processes : [];
  return isRecord(first) ? first["pid"] : undefined;
}

interface Open {
  readonly text: () => string;
  /** Lets the engine say the rest; resolves once the client has it. */
  finish(): Promise<void>;
}

/** A stream from the slot `steady` that has begun, and ends on request. */
async function openStream(berth: RunningBerth): Promise<Open> {
  const response = await fetch(new URL("/v1/chat/completions", berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "steady", stream: true, messages: [{ role: "user", content: "hi" }] }),
  });
  let text = "";
  const reading = later(
    (async () => {
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) text += piece;
    })(),
  );
  await until("the stream has begun", () => text.includes("one "));
  return {
    text: () => text,
    async finish() {
      const { endpoint } = await berth.slot("steady");
      await (await fetch(new URL("/go", String(endpoint)), { method: "POST" })).text();
      await reading;
    },
  };
}

function assertWhole(text: string): void {
  const said = [...text.matchAll(/"content":"(\w+ )"/g)].map(([, word]) => word);
  assert.deepEqual(said, words);
  assert.match(text, /data: \[DONE\]\n\n$/);
}

/** The published file of each slot, to the byte: its revision, processes, transitions. */
async function published(berth: RunningBerth): Promise<ReadonlyMap<string, string>> {
  const directory = join(berth.stateDir, "slots");
  const files = (await readdir(directory)).filter((file) => file.endsWith(".json")).toSorted();
  return new Map(
    await Promise.all(files.map(async (file) => [file, await readFile(join(directory, file), "utf8")] as const)),
  );
}

/** The slots `steady` and `other`, loaded, and `idle` more that are not. */
async function startSteady(idle = 0): Promise<{ berth: RunningBerth; steady: string }> {
  let steady = "";
  const berth = await startBerth({
    prepare: async ({ configDir, modelsDir }) => {
      const program = join(modelsDir, "gated.mjs");
      await writeFile(program, gated);
      steady = manifest(program);
      await writeFile(join(configDir, "slots/steady.toml"), steady);
      await writeFile(join(configDir, "slots/other.toml"), manifest(double));
      for (let nth = 0; nth < idle; nth += 1)
        await writeFile(join(configDir, `slots/s${nth}.toml`), `enabled = false\n${steady}`);
    },
  });
  await berth.state("steady", "ready", "idle");
  await berth.state("other", "ready", "idle");
  await until("every slot has been looked at", async () => {
    const text = await readFile(join(berth.stateDir, "operator.json"), "utf8");
    return publishedOperatorSchema.parse(JSON.parse(text)).isSettled;
  });
  return { berth, steady };
}

test("an edit and a crash of one of 200 slots leave the others, and their open streams, alone", async () => {
  const { berth, steady } = await startSteady(198);
  await using _berth = berth;
  const [steadyPid, otherPid] = [await pidOf(berth, "steady"), await pidOf(berth, "other")];
  const streams = [await openStream(berth), await openStream(berth)];
  // The operator measures memory every ten seconds, and publishes the first figure, and the first one since it is ready.
  await until("the memory of the steady one is measured", async () => {
    const { memory, fit } = await berth.slot("steady");
    return isRecord(memory) && isRecord(fit) && fit["stage"] === "measured";
  });
  const before = await published(berth);
  assert.ok(before.size >= 200, `${before.size} slots are published`);

  await writeFile(join(berth.configDir, "slots/other.toml"), manifest(double, "--tokens", "3"));
  const edited = await until("the other is started anew", async () => {
    const pid = await pidOf(berth, "other");
    return pid !== undefined && pid !== otherPid && pid;
  });
  process.kill(Number(edited), "SIGKILL");
  await until("its crash is seen", async () => (await berth.slot("other"))["last_error"] !== null);
  const after = await published(berth);
  const changed = [...after].filter(([file, text]) => text !== before.get(file)).map(([file]) => file);
  assert.deepEqual([changed, after.size], [["other.json"], before.size]);
  // What does not reach the engine is no reason to touch it either.
  await writeFile(join(berth.configDir, "slots/steady.toml"), `aliases = ["gpt"]\n${steady}`);
  await until("the alias is given", async () => {
    const { aliases } = await berth.slot("steady");
    return Array.isArray(aliases) && aliases.includes("gpt");
  });

  await Promise.all(streams.map((stream) => stream.finish()));
  for (const stream of streams) assertWhole(stream.text());
  assert.equal(await pidOf(berth, "steady"), steadyPid);
});

test("an edit of a slot that streams waits for the stream, and no other request is admitted meanwhile", async () => {
  const { berth, steady } = await startSteady();
  await using _berth = berth;
  const before = await pidOf(berth, "steady");
  const stream = await openStream(berth);
  await writeFile(join(berth.configDir, "slots/steady.toml"), `${steady}[env]\nA = "1"\n`);
  await berth.state("steady", "unloading");
  const late = later(openStream(berth));
  await until("another request is held", async () => (await berth.slot("steady"))["held"] === 1);
  assert.equal(await pidOf(berth, "steady"), before, "the engine runs on for its stream");
  await stream.finish();
  assertWhole(stream.text());
  const next = await late;
  assert.notEqual(await pidOf(berth, "steady"), before);
  await next.finish();
  assertWhole(next.text());
});
