import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ModelTask, ModelTaskAnswer } from "../../../src/api/model-task.ts";
import { findCatalog } from "../../../src/program/shipped-catalog.ts";
import type { TokenScope } from "../../../src/api/scopes.ts";
import { startGateway as startWithTokens } from "../auth/gateway.ts";
import { modelRecord } from "../../support/gateway.ts";
import { answerTasks, rowsOf, site, type Json } from "./fixture.ts";

const gib = 1024 ** 3;
const several = [
  { paths: ["r-Q4_K_M.gguf"], quantization: "Q4_K_M", sizeBytes: 2 * gib },
  { paths: ["r-Q8_0-00001-of-00002.gguf", "r-Q8_0-00002-of-00002.gguf"], quantization: "Q8_0", sizeBytes: 4 * gib },
  { paths: ["a/r-F16.gguf"], quantization: "F16", sizeBytes: 8 * gib },
  { paths: ["b/r-F16.gguf"], quantization: "F16", sizeBytes: 9 * gib },
  { paths: ["mmproj-r.gguf"], sizeBytes: 1, isProjector: true as const },
];

/** A DOUBLE of the operator and the hub behind it. */
function listed(task: ModelTask): Partial<ModelTaskAnswer> {
  if (task.kind !== "hub") return {};
  switch (task.repo) {
    case "r":
      return { hub: { models: several, leftOut: 3 } };
    case "one":
      return { hub: { models: [{ paths: ["one.gguf"], sizeBytes: 5 }, ...several.slice(4)], leftOut: 0 } };
    case "empty":
      return { hub: { models: [], leftOut: 0 } };
    case "lost":
      return { error: "there is no such repository", reason: "SourceNotFound" };
    default:
      return { error: "the hub cannot be reached", reason: "FetchFailed" };
  }
}

const away = "/api/models/hub?name=";

async function choicesSite() {
  await using stack = new AsyncDisposableStack();
  const models = [modelRecord("here"), modelRecord("o/r-here")];
  const at = stack.use(await site({ registry: { models }, gateway: { catalog: findCatalog } }));
  const operator = stack.use(await answerTasks(at.stateDir, listed));
  const owned = stack.move();
  return { ...at, seen: operator.seen, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe("the models that a typed name may stand for", () => {
  it("are those of the registry, the catalogue, a repository or an address", async () => {
    await using at = await choicesSite();
    for (const [typed, from, names] of [
      ["here", "registry", ["here"]],
      ["o/r-here", "registry", ["o/r-here"]],
      ["qwen3-4b", "catalog", ["qwen3-4b"]],
      ["qwen3:4b", "catalog", ["qwen3-4b"]],
      ["qwen3", "catalog", ["qwen3-0.6b", "qwen3-4b", "qwen3-8b"]],
      ["https://h.test/a.gguf", "address", ["https://h.test/a.gguf"]],
      ["https://huggingface.co/o/r/blob/main/a.gguf", "address", ["https://huggingface.co/o/r/blob/main/a.gguf"]],
      ["o/r:q8_0", "hub", ["o/r:Q8_0"]],
      ["o/r:r-Q4_K_M", "hub", ["o/r:Q4_K_M"]],
      ["o/r:F16@v2", "hub", ["hf://o/r/a/r-F16.gguf@v2", "hf://o/r/b/r-F16.gguf@v2"]],
    ] as const) {
      const rows = rowsOf(await at.got(`${away}${encodeURIComponent(typed)}`));
      assert.deepEqual(
        rows.map((row) => [row["from"], row["name"]]),
        names.map((name) => [from, name]),
        typed,
      );
    }
    const asked = at.seen.map((task) => (task.kind === "hub" ? `${task.owner}/${task.repo}@${task.revision}` : ""));
    assert.deepEqual(asked, ["o/r@main", "o/r@main", "o/r@v2"], "nothing else needs the network");
  });

  it("are the files of a repository with quantisation, size and how each is chosen", async () => {
    await using at = await choicesSite();
    const found = await at.got(`${away}hf.co/o/r`);
    assert.deepEqual([found["repository"], found["left_out"]], ["o/r", 3]);
    const row = (name: string): Json | undefined => rowsOf(found).find((each) => each["name"] === name);
    assert.deepEqual(row("o/r:Q8_0"), {
      name: "o/r:Q8_0",
      from: "hub",
      quantization: "Q8_0",
      sources: ["hf://o/r/r-Q8_0-00001-of-00002.gguf", "hf://o/r/r-Q8_0-00002-of-00002.gguf"],
      size_bytes: 4 * gib,
      is_projector: false,
      fit: null,
    });
    assert.equal(row("hf://o/r/mmproj-r.gguf")?.["is_projector"], true);
  });

  for (const [typed, is, message] of [
    [
      "qwen3:14b",
      "404 model.not_found",
      /^no model is called "qwen3:14b"; of that family the catalogue has qwen3-0\.6b/,
    ],
    ["qwen3-4c", "404 model.not_found", /; did you mean qwen3-4b\?: pull a repository \(owner\/name\), an address, or/],
    [
      "o/r:Q5_0",
      "404 model.not_found",
      /^o\/r has no Q5_0: it has Q4_K_M \(2\.0 GiB\), Q8_0 \(4\.0 GiB\), hf:.* and 3 more$/,
    ],
    ["o/empty", "404 model.not_found", /^o\/empty has no GGUF model: look for a repository whose name ends in -GGUF$/],
    ["o/lost", "404 model.not_found", /^there is no such repository$/],
    ["o/away", "502 model.pull_failed", /^the hub cannot be reached$/],
    ["hf.co/datasets/o/r", "422 dispatch.invalid_request", /is no page of a model: copy the address of a model's page/],
    ["", "400 dispatch.invalid_request", /name: /],
    ["x".repeat(2049), "400 dispatch.invalid_request", /name: /],
  ] as const) {
    it(`${typed.slice(0, 30)} stands for none: ${is}`, async () => {
      await using at = await choicesSite();
      const refused = await at.refused("GET", `${away}${encodeURIComponent(typed)}`);
      assert.equal(refused.is, is, refused.message);
      assert.match(refused.message, message);
    });
  }

  it("are told to admins alone: the list may name private repositories", async () => {
    await using at = await startWithTokens({ SVC_AUTH_ENABLED: "1" });
    await using operator = await answerTasks(at.stateDir, listed);
    const askAs = async (scope: TokenScope): Promise<number> =>
      (await at.ask("GET", `${away}o/r`, { authorization: `Bearer ${await at.token(scope)}` })).status;
    for (const scope of ["all", "read-only", "v1-only"] as const) assert.equal(await askAs(scope), 403, scope);
    assert.deepEqual(operator.seen, [], "the hub is not asked");
    assert.equal(await askAs("admin"), 200);
  });

  it("are listed for eight callers at once, and no more", async () => {
    await using at = await site({ gateway: { catalog: findCatalog } });
    await using silent = await answerTasks(at.stateDir, (task) => listed(task));
    assert.equal((await at.send("GET", `${away}o/r`)).status, 200);
    await silent[Symbol.asyncDispose]();
    // Nobody answers these before the gateway ends.
    const waiting = Array.from({ length: 9 }, async () => (await at.send("GET", `${away}o/r`)).status);
    assert.equal(await Promise.race(waiting), 503);
    await using _operator = await answerTasks(at.stateDir, listed);
    const statuses = await Promise.all(waiting);
    assert.deepEqual(
      statuses.toSorted((one, other) => one - other),
      [200, 200, 200, 200, 200, 200, 200, 200, 503],
    );
  });
});

describe("a pull by a typed name", () => {
  for (const [typed, model, sources] of [
    ["qwen3:0.6b", "qwen3-0.6b", ["hf://Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf"]],
    ["o/r:Q8_0", "r-Q8_0", ["hf://o/r/r-Q8_0-00001-of-00002.gguf", "hf://o/r/r-Q8_0-00002-of-00002.gguf"]],
    ["https://hf.co/o/one", "one", ["hf://o/one/one.gguf"]],
    ["https://huggingface.co/o/r/resolve/v2/a.gguf?download=true", "a", ["hf://o/r/a.gguf@v2"]],
    ["hf://o/r/mmproj-r.gguf", "mmproj-r", ["hf://o/r/mmproj-r.gguf"]],
  ] as const) {
    it(`begins where ${typed} stands for one model`, async () => {
      await using at = await choicesSite();
      const job = await at.got("/api/models/pull", "POST", { model: typed });
      assert.deepEqual([job["model"], job["sources"], job["state"]], [model, sources, "queued"]);
    });
  }

  it("is refused with the choices where it stands for several", async () => {
    await using at = await choicesSite();
    const { is, message, details } = await at.refused("POST", "/api/models/pull", { model: "o/r" });
    assert.equal(is, "409 dispatch.invalid_request");
    assert.equal(
      message,
      "o/r has 7 models: Q4_K_M (2.0 GiB), Q8_0 (4.0 GiB), hf://o/r/a/r-F16.gguf (8.0 GiB), hf://o/r/b/r-F16.gguf (9.0 GiB) and 3 more; choose one of them, such as o/r:Q4_K_M",
    );
    assert.partialDeepStrictEqual(details, { path: ["model"], choices: [{ name: "o/r:Q4_K_M", size_bytes: 2 * gib }] });
    assert.equal(
      (await at.refused("POST", "/api/models/pull", { model: "https://127.0.0.1/a.gguf" })).is,
      "403 auth.forbidden",
    );
  });
});
