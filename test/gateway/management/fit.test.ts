import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openHardwareStore } from "../../../src/store/state/hardware.ts";
import { findCatalog } from "../../../src/program/shipped-catalog.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";
import { shapes } from "../../support/shapes.ts";
import { writeShape } from "../../support/shaped-model.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const gib = 1024 ** 3;

/** A gateway of a machine with 16 GiB and no GPU, and one model on it. */
async function site(): Promise<{ readonly gateway: TestGateway } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const model = join(path, "dense.gguf");
  await writeShape(model, shapes.dense);
  const record = {
    ...modelRecord("dense"),
    path: model,
    files: [model],
    fingerprint: "1:1",
    state: "available",
  } as const;
  const gateway = stack.use(
    await startGateway({
      registry: {
        models: [
          { ...record, files: [model] },
          { ...modelRecord("declared"), memoryBytes: 20 * gib, state: "missing" },
        ],
      },
      slots: { writer: { spec: { engine: "llama", model: { default: "small", contextSize: 2_000_000 } } } },
      gateway: { catalog: findCatalog },
    }),
  );
  const store = stack.use(await openHardwareStore(documentsInFiles(gateway.stateDir)));
  const facts: HardwareFacts = {
    ...pcFacts,
    memory: { ...pcFacts.memory, total_bytes: 16 * gib, usable_bytes: 16 * gib },
  };
  await store.publish({ schema: 1, hardware: withSuggestions(facts) });
  await until("the gateway has seen it", async () => (await fetch(`${gateway.url}/api/hardware`)).ok);
  const owned = stack.move();
  return { gateway, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function put({ url }: TestGateway, model: Record<string, unknown>, more: object = {}): Promise<Response> {
  const body = JSON.stringify({ model: { default: "dense", ...model }, ...more });
  return await fetch(`${url}/api/slots/coder`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body,
  });
}

describe("a slot that is written", () => {
  it("is refused where its model cannot fit this machine, with the sum and what would fit", async () => {
    await using at = await site();
    const response = await put(at.gateway, { contextSize: 2_000_000 });
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code], [409, "config.fit"]);
    assert.match(
      error.message,
      /^dense needs 2\d\.\d GiB \(weights 204 MiB, context 22\.9 GiB, .*\) on host, which has 16\.0 GiB \(the machine's memory\); it fits with context_size 1048576$/,
    );
    assert.equal(error.details?.["budget_bytes"], 16 * gib);
    assert.equal((await fetch(`${at.gateway.url}/api/slots/coder`)).status, 404, "nothing was written");
  });

  it("is refused by what its manifest reserves, and by what its model declares where no header tells", async () => {
    await using at = await site();
    const memoryBytes = 64 * 1024 * gib;
    const refusals: [Response, string, string[]][] = [
      [
        await put(at.gateway, {}, { resources: { memoryBytes } }),
        "coder needs 64.0 TiB (resources.memoryBytes) on host, which has 16.0 GiB (the machine's memory); lower resources.memoryBytes of the slot to what it needs",
        ["resources", "memoryBytes"],
      ],
      [
        await put(at.gateway, {}, { replicas: 3, resources: { memoryBytes: 6 * gib } }),
        "coder needs 18.0 GiB (resources.memoryBytes) on host, which has 16.0 GiB (the machine's memory); lower resources.memoryBytes of the slot to what it needs",
        ["resources", "memoryBytes"],
      ],
      [
        await put(at.gateway, { default: "declared" }),
        "declared needs 20.0 GiB (declared) on host, which has 16.0 GiB (the machine's memory); a smaller model or quantisation may fit",
        ["model"],
      ],
    ];
    for (const [response, message, path] of refusals) {
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code, error.message], [409, "config.fit", message]);
      assert.deepEqual(error.details?.["path"], path);
    }
  });

  it("is refused as well where a swap would have it hold what cannot fit", async () => {
    await using at = await site();
    const response = await fetch(`${at.gateway.url}/api/slots/writer/swap`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "dense" }),
    });
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code], [409, "config.fit"]);
  });

  it("is reported with its place when a configuration is validated, unsaved or in the directory", async () => {
    await using at = await site();
    const text = '# large\n[model]\ndefault = "dense"\ncontext_size = 2_000_000\n';
    const validated = async (body?: object): Promise<unknown> => {
      const init = body === undefined ? {} : { body: JSON.stringify(body) };
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${at.gateway.url}/api/config/validate`, {
        method: "POST",
        ...(body === undefined ? {} : { headers }),
        ...init,
      });
      return await response.json();
    };
    const problem = (found: unknown): Record<string, unknown> => {
      const [first] = isRecord(found) && Array.isArray(found["diagnostics"]) ? found["diagnostics"] : [];
      assert.ok(isRecord(first), JSON.stringify(found));
      return first;
    };
    const place = { reason: "DoesNotFit", file: "slots/coder.toml", line: 3, column: 1, path: ["model"] };
    const { message, ...unsaved } = problem(await validated({ files: { "slots/coder.toml": text } }));
    assert.deepEqual(unsaved, place);
    assert.match(String(message), /^dense needs 2\d\.\d GiB .* it fits with context_size 1048576$/);
    const directory = join(at.gateway.stateDir, "config/slots");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "coder.toml"), text);
    const { message: again, ...saved } = problem(await validated());
    assert.deepEqual([saved, again], [place, message]);
    await writeFile(join(directory, "coder.toml"), text.replace("2_000_000", "32_768"));
    assert.deepEqual(await validated(), { valid: true, diagnostics: [] });
  });

  it("is taken where it fits, where a person allows it, and where nothing is known of the model", async () => {
    await using at = await site();
    for (const model of [
      { contextSize: 32_768 },
      { contextSize: 2_000_000, spill: "allow" },
      { default: "later", contextSize: 2_000_000 },
    ]) {
      const response = await put(at.gateway, model);
      // It was written; no operator is there to take it up.
      assert.equal((await envelopeOf(response)).error.code, "slot.not_ready", JSON.stringify(model));
    }
  });
});

describe("the catalogue", () => {
  it("says of every curated model whether it fits, why, and how to check that", async () => {
    await using at = await site();
    const answer: unknown = await (await fetch(`${at.gateway.url}/api/models/catalog`)).json();
    const data = isRecord(answer) && Array.isArray(answer["data"]) ? answer["data"].filter(isRecord) : [];
    assert.equal(data.length, (await findCatalog()).length);
    const found = new Map(data.map((entry) => [entry["id"], entry]));
    const verdict = (id: string): unknown => {
      const fit = found.get(id)?.["fit"];
      return isRecord(fit) ? [fit["verdict"], fit["settings"] ?? null] : undefined;
    };
    assert.deepEqual(verdict("qwen3-0.6b"), ["fits", null]);
    assert.deepEqual(verdict("sdxl-turbo"), ["does_not_fit", null]);
    assert.deepEqual(verdict("kokoro-82m"), ["unknown", null]);
    const image = found.get("sdxl-turbo");
    assert.deepEqual(
      [image?.["must_accept"], image?.["sha256"], image?.["size_bytes"], image?.["is_here"]],
      [true, null, 6_500_000_000, false],
    );
    const fit = found.get("qwen3-8b")?.["fit"];
    assert.ok(isRecord(fit));
    assert.deepEqual(fit["inputs"], [
      "the processor, with 16.0 GiB",
      "a size of about 4.7 GiB, by the catalogue",
      "llama, one request at a time",
      "a context of 32768 tokens",
    ]);
    assert.equal(fit["check"], "berth probe -o wide");
  });

  it("says that a machine that was never probed is unknown", async () => {
    await using gateway = await startGateway({ gateway: { catalog: findCatalog } });
    const answer: unknown = await (await fetch(`${gateway.url}/api/models/catalog`)).json();
    const [first] = isRecord(answer) && Array.isArray(answer["data"]) ? answer["data"].filter(isRecord) : [];
    assert.ok(isRecord(first?.["fit"]));
    assert.deepEqual(
      [first["fit"]["verdict"], first["fit"]["message"]],
      ["unknown", "no operator has probed this machine yet"],
    );
  });
});

describe("a pull by the catalogue's name", () => {
  const pull = async (gateway: TestGateway, body: object): Promise<Response> =>
    await fetch(`${gateway.url}/api/models/pull`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });

  it("asks for the entry's files", async () => {
    await using gateway = await startGateway({ gateway: { catalog: findCatalog } });
    const response = await pull(gateway, { model: "qwen3-0.6b" });
    const job: unknown = await response.json();
    assert.equal(response.status, 202);
    assert.ok(isRecord(job));
    assert.deepEqual(
      [job["model"], job["sources"]],
      ["qwen3-0.6b", ["hf://Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf"]],
    );
  });

  it("is refused until a licence that requires it is accepted, by name and by source", async () => {
    await using gateway = await startGateway({ gateway: { catalog: findCatalog } });
    const source = "hf://stabilityai/sdxl-turbo/sd_xl_turbo_1.0_fp16.safetensors";
    for (const body of [{ model: "sdxl-turbo" }, { source }, { files: [{ source }], ref: "mine" }]) {
      const response = await pull(gateway, body);
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code], [409, "dispatch.invalid_request"]);
      assert.match(
        error.message,
        /^the licence of SDXL Turbo must be accepted first: Stability AI Non-Commercial .*https:/,
      );
      assert.equal((await pull(gateway, { ...body, accept_license: true })).status, 202);
    }
  });
});
