import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { catalogEntrySchema } from "../../../src/api/catalog.ts";
import { modelRecordSchema } from "../../../src/api/model.ts";
import type { PullStatus } from "../../../src/api/pull.ts";
import { modelRecord } from "../../support/gateway.ts";
import { rowsOf, site, type Json, type Site } from "./fixture.ts";

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

/** The request for a pull that the operator reads. */
async function requestOf({ stateDir }: Site, id: unknown): Promise<Json> {
  const request: Json = JSON.parse(await readFile(join(stateDir, "pull-requests", `${String(id)}.json`), "utf8"));
  return request;
}

const pulls = async ({ stateDir }: Site): Promise<string[]> =>
  (await readdir(join(stateDir, "pull-requests"))).toSorted();

it("an invalid pull is refused with the field, and no request reaches the operator", async () => {
  const models = [modelRecord("here")];
  await using at = await site({ registry: { models }, gateway: { catalog: async () => [licensed] } });
  for (const [body, status, message] of [
    [{}, 400, /needs one of model, source and files/],
    [{ source: "hf://o/r/a.gguf", model: "here" }, 400, /needs one of model, source and files/],
    [{ source: "ftp://h/a.gguf" }, 400, /source: starts with hf:\/\/, https:\/\/, file:\/\/, flm:\/\/ or voice:\/\//],
    [{ source: "flm://qwen3:4b" }, 422, /is fetched from hf:\/\/ and https:\/\/ only: declare others in models\//],
    [{ source: "file:///etc/passwd" }, 422, /source: is fetched from hf:\/\/ and https:\/\/ only/],
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
    [{ files: [{ source: "hf://o/r/licensed.gguf" }], ref: "mine" }, 409, /the licence of Licensed must be/],
  ] as const) {
    const refused = await at.refused("POST", "/api/models/pull", body);
    assert.equal(refused.is.slice(0, 3), String(status), `${JSON.stringify(body)}: ${refused.message}`);
    assert.match(refused.message, message);
    assert.doesNotMatch(refused.message, /secret/);
  }
  assert.deepEqual(await pulls(at), []);
  const job = await at.got("/api/models/pull", "POST", { model: "licensed", accept_license: true });
  assert.partialDeepStrictEqual(job, { model: "licensed", sources: ["hf://o/r/licensed.gguf"] });
});

it("a hundred pulls may be under way, requests of the same moment included, and two for one model are one", async () => {
  await using at = await site();
  const pull = async (name: string): Promise<Response> =>
    await at.post("/api/models/pull", { source: `hf://o/r/${name}.gguf` });
  const twins = await Promise.all([pull("twin"), pull("twin")]);
  const [one, other] = await Promise.all(twins.map(async (answer): Promise<unknown> => await answer.json()));
  assert.deepEqual(one, other);
  const answers = await Promise.all(Array.from({ length: 110 }, async (_, nth) => (await pull(`m${nth}`)).status));
  assert.equal(answers.filter((status) => status === 202).length, 99);
  assert.equal((await pulls(at)).length, 100);
  const answer = await at.send("POST", "/api/models/pull", { source: "hf://o/r/more.gguf" });
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, "30"]);
  assert.match(await answer.text(), /"system\.overloaded".*100 pulls and checks have not ended: wait, or cancel some/);
  assert.equal((await pull("twin")).status, 202, "it is known");
});

describe("pulls that an operator has published", () => {
  const pull = (ref: string, more: object = {}): PullStatus => ({
    id: `slot-${ref}`,
    ref,
    state: "running",
    files: [{ source: `http://127.0.0.1:9000/${ref}.gguf` }],
    isForSlot: true,
    slots: ["p", "q"],
    bytesDone: 1,
    stalls: 0,
    ...more,
  });
  const check = {
    schema: 1,
    id: "check",
    ref: "a",
    files: [{ source: "/m/.berth/a.gguf" }],
    isOpen: false,
    action: "verify",
    requestedAt: new Date().toISOString(),
  };
  const source = "https://models.test/far.gguf";
  const published = [
    pull("a"),
    pull("larger", { bytesDone: 300, bytesTotal: 200, bytesPerSecond: 10 }),
    pull("far", { files: [{ source }] }),
  ];
  let at: Site;
  before(async () => {
    at = await site({
      onStart: (stateDir) => {
        for (const name of ["pulls", "pull-requests"]) mkdirSync(join(stateDir, name), { recursive: true });
        writeFileSync(join(stateDir, "pulls/status.json"), JSON.stringify({ schema: 1, pulls: published }));
        writeFileSync(join(stateDir, "pull-requests/check.json"), JSON.stringify(check));
      },
    });
  });
  after(() => at[Symbol.asyncDispose]());

  it("cannot be cancelled where slots need them, and the refusal names those slots", async () => {
    const { is, message, details } = await at.refused("DELETE", "/api/pulls/slot-a");
    assert.match(is, /^409 /);
    assert.equal(message, "p, q need a: pause the pull, or have the slots hold another model");
    assert.deepEqual(details, { ref: "a", slots: ["p", "q"] });
  });

  it("that bring more bytes than were announced are over at once, not in the past", async () => {
    const larger = await at.got("/api/pulls/slot-larger");
    assert.partialDeepStrictEqual(larger, { bytes_done: 300, bytes_total: 200, eta_seconds: 0 });
  });

  it("that check a model can be cancelled, and neither paused nor resumed", async () => {
    for (const change of ["pause", "resume"]) {
      const { message } = await at.refused("POST", `/api/pulls/check/${change}`);
      assert.equal(message, "the check of a cannot be paused or resumed: cancel it, and begin another later");
    }
    assert.deepEqual(await requestOf(at, "check"), check);
    assert.equal((await at.send("DELETE", "/api/pulls/check")).status, 202);
    assert.match((await at.refused("POST", "/api/pulls/check/pause")).is, /^409 /, "it is being cancelled");
  });

  it("may be paused without authentication, and go on from a server of this machine", async () => {
    assert.equal((await at.send("POST", "/api/pulls/slot-a/pause")).status, 202);
    const { action, isOpen, files } = await requestOf(at, "slot-a");
    assert.deepEqual([action, isOpen, files], ["pause", false, published[0]?.files]);
  });

  it("go on by a pull of the same model, beside no other request", async () => {
    assert.equal((await at.send("POST", "/api/pulls/slot-far/pause")).status, 202);
    const before = await pulls(at);
    assert.equal((await at.got("/api/models/pull", "POST", { source, ref: "far" }))["id"], "slot-far");
    assert.deepEqual(await pulls(at), before);
    assert.equal((await requestOf(at, "slot-far"))["action"], "run");
  });
});

it("a check takes the checksums that a manifest names, and is refused where none is known", async () => {
  const file = { origin: "manifest", source: "file:///m/a.gguf", files: ["/m/a.gguf"], state: "available" };
  const sha256 = "a".repeat(64);
  const checksums = { "/m/a b.gguf": sha256 };
  const models = [{ ref: "known", checksums }, { ref: "unknown" }];
  const registry = { models: models.map((each) => modelRecordSchema.parse({ ...file, ...each })) };
  await using at = await site({ registry });
  const { id, is_check: isCheck } = await at.got("/api/models/verify", "POST", { model: "known" });
  assert.equal(isCheck, true);
  const request = await requestOf(at, id);
  assert.partialDeepStrictEqual(request, { action: "verify", files: [{ source: "file:///m/a%20b.gguf", sha256 }] });
  assert.equal((await at.refused("POST", "/api/models/verify", { model: "nobody" })).is, "404 model.not_found");
  const { is, message } = await at.refused("POST", "/api/models/verify", { model: "unknown" });
  assert.match(is, /^409 /);
  assert.equal(
    message,
    "unknown was not fetched by Berth, and no manifest names the sha256 of its files: name it in the model's manifest (docs/models.md), or pull the model",
  );
});

it("a model whose pull has completed can be used at once by a gateway that was not told of it yet", async () => {
  await using at = await site({ slots: { primary: {} } });
  const models = ["a", "b", "c"].map((ref) => modelRecord(ref));
  const arrive = (count: number): Promise<void> => at.publishRegistry({ models: models.slice(0, count) });
  for (let round = 0; round < 3; round++) {
    await at.publishRegistry({ models: [{ ...modelRecord("a"), state: "missing" }] });
    await arrive(1);
    assert.equal((await at.got("/api/models/a"))["state"], "available");
    await arrive(2);
    assert.equal((await at.send("POST", "/api/slots/primary/swap", { model: "b" })).status, 202);
    await arrive(3);
    assert.ok(rowsOf(await at.got("/api/models")).some(({ id }) => id === "c"));
  }
});
