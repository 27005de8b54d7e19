import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { catalogEntrySchema } from "../../../src/api/catalog.ts";
import type { PullStatus } from "../../../src/api/pull.ts";
import { modelRecordSchema } from "../../../src/api/model.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";

const licensed = catalogEntrySchema.parse({
  apiVersion: "berth.dev/v1alpha1",
  kind: "Model",
  metadata: { name: "licensed" },
  spec: {
    source: "hf://o/r/licensed.gguf",
    engines: ["llama"],
    capabilities: ["chat"],
    license: "Terms",
    licenseUrl: "https://x.test/terms",
  },
  catalog: { title: "Licensed", engine: "llama", aboutBytes: 1, mustAccept: true, unverified: [] },
});

it("an invalid pull is refused with the field, and no request reaches the operator", async () => {
  const here = { ref: "here", origin: "file", source: "file:///m/here.gguf", state: "available" };
  const models = [modelRecordSchema.parse(here)];
  const catalog = async () => [licensed];
  await using gateway = await startGateway({ registry: { models }, gateway: { catalog } });
  for (const [body, status, message] of [
    [{}, 400, /needs one of model, source and files/],
    [{ source: "hf://o/r/a.gguf", model: "here" }, 400, /needs one of model, source and files/],
    [{ source: "ftp://h/a.gguf" }, 400, /source: starts with hf:\/\/, https:\/\//],
    [
      { source: "flm://qwen3:4b" },
      422,
      /source: is fetched from hf:\/\/ and https:\/\/ only: declare others in models\//,
    ],
    [{ source: "file:///etc/passwd" }, 422, /source: is fetched from hf:\/\/ and https:\/\/ only/],
    [
      { source: "s3://bucket/a.gguf" },
      400,
      /source: starts with hf:\/\/, https:\/\/, file:\/\/, flm:\/\/ or voice:\/\//,
    ],
    [{ source: "hf://owner" }, 422, /source: hf:\/\/owner is no hf:\/\/owner\/repo\/file/],
    [{ source: "https://h.test/" }, 422, /source: https:\/\/h\.test\/ names no file/],
    [{ source: "https://user:secret@h.test/a.gguf" }, 422, /source: https:\/\/h\.test holds a password in its URL/],
    [{ source: "hf://o/r/a.gguf", ref: "no ref!" }, 400, /ref: must be a letter or digit, then/],
    [{ source: "hf://o/r/%.gguf", ref: undefined }, 422, /ref: "%" is no ref: give one/],
    [{ source: "hf://o/r/a.gguf", sha256: "12" }, 400, /sha256: 64 lower-case hexadecimal digits/],
    [{ files: [{ source: "hf://o/r/a.gguf" }, { source: "hf://o" }] }, 422, /files\.1: hf:\/\/o is no hf/],
    [{ source: "https://127.0.0.1/a.gguf" }, 403, /a source may not lead to this machine/],
    [{ model: "nobody" }, 404, /no model is called "nobody"/],
    [{ model: "here" }, 409, /here is on this machine already/],
    [{ model: "licensed" }, 409, /the licence of Licensed must be accepted first: Terms, https:\/\/x\.test\/terms/],
    [{ source: "hf://o/r/licensed.gguf@v2" }, 409, /the licence of Licensed must be accepted first/],
  ] as const) {
    const answer = await gateway.post("/api/models/pull", body);
    const { error } = await envelopeOf(answer);
    assert.equal(answer.status, status, `${JSON.stringify(body)}: ${error.message}`);
    assert.match(error.message, message);
    assert.equal(error.message.includes("secret"), false);
  }
  assert.deepEqual(await readdir(join(gateway.stateDir, "pulls")), []);
});

it("the hundred-and-first pull that has not ended is refused, and another request for a known one is not", async () => {
  await using gateway = await startGateway({});
  const pull = async (name: number): Promise<Response> =>
    await gateway.post("/api/models/pull", { source: `hf://o/r/m${name}.gguf` });
  for (let name = 0; name < 100; name += 1) {
    const answer = await pull(name);
    assert.equal(answer.status, 202, await answer.text());
  }
  const answer = await pull(100);
  const { error } = await envelopeOf(answer);
  assert.equal(answer.status, 503);
  assert.equal(error.code, "system.overloaded");
  assert.match(error.message, /^100 pulls and checks have not ended: wait, or cancel some/);
  assert.equal(answer.headers.get("retry-after"), "30");
  assert.equal((await readdir(join(gateway.stateDir, "pulls"))).length, 100);
  const again = await pull(99);
  assert.equal(again.status, 202, await again.text());
});

it("requests of the same moment count each other, and two for one model are one pull", async () => {
  await using gateway = await startGateway({});
  const pull = async (name: string): Promise<Response> =>
    await gateway.post("/api/models/pull", { source: `hf://o/r/${name}.gguf` });
  const twins = await Promise.all([pull("twin"), pull("twin")]);
  const [one, other] = await Promise.all(twins.map(async (answer): Promise<unknown> => await answer.json()));
  assert.deepEqual(one, other);
  const answers = await Promise.all(Array.from({ length: 110 }, async (_, at) => (await pull(`m${at}`)).status));
  assert.equal(answers.filter((status) => status === 202).length, 99);
});

async function send(gateway: TestGateway, method: string, path: string): Promise<Response> {
  return await fetch(new URL(path, gateway.url), { method });
}

/** The pulls that an operator has published. */
function published(pulls: readonly PullStatus[]) {
  return (stateDir: string): void => {
    mkdirSync(join(stateDir, "pulls"), { recursive: true });
    writeFileSync(join(stateDir, "pulls/status.json"), JSON.stringify({ schema: 1, pulls }));
  };
}

const slotPull: PullStatus = {
  id: "slot-a",
  ref: "a",
  state: "running",
  files: [{ source: "http://127.0.0.1:9000/a.gguf" }],
  isForSlot: true,
  slots: ["p", "q"],
  bytesDone: 1,
  stalls: 0,
};

it("a pull that slots need cannot be cancelled, and the refusal names those slots", async () => {
  await using gateway = await startGateway({ onStart: published([slotPull]) });
  const answer = await send(gateway, "DELETE", "/api/pulls/slot-a");
  const { error } = await envelopeOf(answer);
  assert.deepEqual(
    [answer.status, error.message],
    [409, "p, q need a: pause the pull, or have the slots hold another model"],
  );
  assert.deepEqual(error.details, { ref: "a", slots: ["p", "q"] });
});

it("a pull that brings more bytes than were announced is over at once, not in the past", async () => {
  const larger = { ...slotPull, bytesDone: 300, bytesTotal: 200, bytesPerSecond: 10 };
  await using gateway = await startGateway({ onStart: published([larger]) });
  const pull: unknown = await (await send(gateway, "GET", "/api/pulls/slot-a")).json();
  assert.ok(isRecord(pull));
  assert.deepEqual([pull["bytes_done"], pull["bytes_total"], pull["eta_seconds"]], [300, 200, 0]);
});

it("a check can be cancelled, and neither paused nor resumed", async () => {
  const requestedAt = new Date().toISOString();
  const files = [{ source: "/m/.berth/a.gguf" }];
  const request = { schema: 1, id: "check", ref: "a", files, isOpen: false, action: "verify", requestedAt };
  await using gateway = await startGateway({
    onStart: (stateDir) => {
      published([])(stateDir);
      writeFileSync(join(stateDir, "pulls/check.json"), JSON.stringify(request));
    },
  });
  for (const change of ["pause", "resume"]) {
    const answer = await send(gateway, "POST", `/api/pulls/check/${change}`);
    const { error } = await envelopeOf(answer);
    assert.deepEqual(
      [answer.status, error.message],
      [409, "the check of a cannot be paused or resumed: cancel it, and begin another later"],
    );
  }
  const read = async (): Promise<unknown> =>
    JSON.parse(await readFile(join(gateway.stateDir, "pulls/check.json"), "utf8"));
  assert.deepEqual(await read(), request);
  assert.equal((await send(gateway, "DELETE", "/api/pulls/check")).status, 202);
  assert.equal((await send(gateway, "POST", "/api/pulls/check/pause")).status, 409, "it is being cancelled");
});

it("a slot's pull that is paused without authentication may go on from a server of this machine", async () => {
  await using gateway = await startGateway({ onStart: published([slotPull]) });
  assert.equal((await send(gateway, "POST", "/api/pulls/slot-a/pause")).status, 202);
  const path = join(gateway.stateDir, "pulls/slot-a.json");
  const request: unknown = JSON.parse(await readFile(path, "utf8"));
  assert.ok(isRecord(request));
  assert.deepEqual([request["action"], request["isOpen"], request["files"]], ["pause", false, slotPull.files]);
});

it("a pull of a model whose slot's pull is paused goes on with that pull, beside no other request", async () => {
  const source = "https://models.test/a.gguf";
  await using gateway = await startGateway({ onStart: published([{ ...slotPull, files: [{ source }] }]) });
  assert.equal((await send(gateway, "POST", "/api/pulls/slot-a/pause")).status, 202);
  const answer = await fetch(new URL("/api/models/pull", gateway.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ source, ref: "a" }),
  });
  const job: unknown = await answer.json();
  assert.deepEqual([answer.status, isRecord(job) && job["id"]], [202, "slot-a"]);
  const directory = join(gateway.stateDir, "pulls");
  assert.deepEqual((await readdir(directory)).toSorted(), ["slot-a.json", "status.json"]);
  const request: unknown = JSON.parse(await readFile(join(directory, "slot-a.json"), "utf8"));
  assert.equal(isRecord(request) && request["action"], "run");
});

it("a check takes the checksums that a manifest names, and is refused where none is known", async () => {
  const file = { origin: "manifest", source: "file:///m/a.gguf", files: ["/m/a.gguf"], state: "available" };
  const sha256 = "a".repeat(64);
  const models = [
    modelRecordSchema.parse({ ...file, ref: "known", checksums: { "/m/a b.gguf": sha256 } }),
    modelRecordSchema.parse({ ...file, ref: "unknown" }),
  ];
  await using gateway = await startGateway({ registry: { models } });
  const begun = await gateway.post("/api/models/verify", { model: "known" });
  assert.equal(begun.status, 202);
  const view: unknown = await begun.json();
  assert.ok(isRecord(view));
  const path = join(gateway.stateDir, "pulls", `${String(view["id"])}.json`);
  const request: unknown = JSON.parse(await readFile(path, "utf8"));
  assert.ok(isRecord(request));
  assert.deepEqual([request["action"], request["files"]], ["verify", [{ source: "file:///m/a%20b.gguf", sha256 }]]);
  const refused = await gateway.post("/api/models/verify", { model: "unknown" });
  const { error } = await envelopeOf(refused);
  assert.deepEqual(
    [refused.status, error.message],
    [409, "unknown was not fetched by Berth, and no manifest names the sha256 of its files: no checksum is known"],
  );
});

it("a model whose pull has completed can be used at once by a gateway that was not told of it yet", async () => {
  await using gateway = await startGateway({ slots: { primary: {} } });
  const models = [modelRecord("other")];
  for (let round = 0; round < 5; round++) {
    const ref = `pulled-${round}`;
    models.push({ ...modelRecord(ref), state: "missing", reason: "NotFetched" });
    await gateway.publishRegistry({ models });
    models.push({ ...modelRecord(ref) });
    models.splice(-2, 1);
    await gateway.publishRegistry({ models });
    const found: unknown = await (await fetch(`${gateway.url}/api/models/${ref}`)).json();
    assert.equal(isRecord(found) && found["state"], "available");
    models.push(modelRecord(`also-${round}`));
    await gateway.publishRegistry({ models });
    assert.equal((await gateway.post("/api/slots/primary/swap", { model: `also-${round}` })).status, 202);
    models.push(modelRecord(`third-${round}`));
    await gateway.publishRegistry({ models });
    assert.match(await (await fetch(`${gateway.url}/api/models`)).text(), new RegExp(`third-${round}`));
  }
});
