import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { modelSpecSchema } from "../../../src/api/model.ts";
import { resourceStatuses } from "../../../src/operator/report/resource-conditions.ts";
import type { Desired, Diagnostic } from "../../../src/store/store.ts";
import { model as record } from "../../engines/fixture.ts";

const at = (minute: number): Date => new Date(Date.UTC(2026, 10, 22, 12, minute));
const declared = (name: string, more: Partial<Desired<"Model">> = {}): Desired<"Model"> => ({
  kind: "Model",
  name,
  spec: modelSpecSchema.parse({ source: "file:///m.gguf" }),
  specHash: "h",
  labels: {},
  annotations: {},
  origin: { kind: "file", path: `/c/models/${name}.toml` },
  generation: undefined,
  since: at(0),
  diagnostics: [],
  ...more,
});
const wrong = (reason: Diagnostic["reason"]): Diagnostic => ({
  reason,
  file: "/c/models/m.toml",
  line: 3,
  message: "no",
});
const short = (model: Desired<"Model">, records: Parameters<typeof resourceStatuses>[1] = new Map()): string[] =>
  resourceStatuses({ models: [model], upstreams: [], groups: [] }, records, [], at(0)).flatMap(({ conditions }) =>
    conditions.map(({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`),
  );
const only = (...records: ReturnType<typeof record>[]): Parameters<typeof resourceStatuses>[1] =>
  new Map(records.map((each) => [each.ref, each]));

describe("a model's conditions", () => {
  it("follow its files", () => {
    const there = record({ ref: "m", origin: "manifest", name: "m" });
    assert.deepEqual(short(declared("m"), only(there)), ["Ready True Available: its files are there"]);
    const gone = { ...there, state: "missing", reason: "ModelFileMissing", message: "/m.gguf is not there" } as const;
    assert.deepEqual(short(declared("m"), only(gone)), [
      "Ready False ModelFileMissing: /m.gguf is not there",
      "Stalled True ModelFileMissing: /m.gguf is not there",
    ]);
  });

  it("name the place of the problem, and say whether a spec is in force", () => {
    const never = declared("m", { spec: undefined, diagnostics: [wrong("InvalidSpec")] });
    assert.equal(short(never)[1], "Stalled True InvalidSpec: /c/models/m.toml:3: no");
    const broken = declared("m", { diagnostics: [wrong("InvalidSpec")] });
    assert.match(short(broken)[1] ?? "", /:3: no\nwhat it said when it was last valid stays in force$/);
    assert.match(short(declared("m", { diagnostics: [wrong("DuplicateResource")] }))[1] ?? "", /^NameConflict True /);
  });

  it("report a ref that another Model has, and an invalid name", () => {
    const other = record({ ref: "m", origin: "manifest", name: "first" });
    assert.match(short(declared("m"), only(other))[1] ?? "", /^NameConflict True .* the ref m belongs to Model first$/);
    assert.match(short(declared("no ref"))[1] ?? "", /^Stalled True InvalidName: .*"no ref" cannot be a model's ref/);
  });

  it("keep the time of the last move, and count edits, under the next operator too", () => {
    const first = resourceStatuses({ models: [declared("m")], upstreams: [], groups: [] }, new Map(), [], at(0));
    const edited = [declared("m", { specHash: "i" })];
    const [second] = resourceStatuses({ models: edited, upstreams: [], groups: [] }, new Map(), first, at(5));
    assert.equal(second?.generation, 2);
    const counting = { models: [declared("m", { specHash: "i", generation: 7 })], upstreams: [], groups: [] };
    assert.equal(resourceStatuses(counting, new Map(), first, at(5))[0]?.generation, 7, "by a source that counts");
    assert.equal(second?.conditions[0]?.lastTransitionTime, at(0).toISOString());
    const broken = [declared("m", { specHash: "i", diagnostics: [wrong("InvalidSpec")] })];
    const [third] = resourceStatuses(
      { models: broken, upstreams: [], groups: [] },
      new Map(),
      second === undefined ? [] : [second],
      at(9),
    );
    assert.deepEqual([third?.generation, third?.conditions[0]?.lastTransitionTime], [2, at(9).toISOString()]);
  });
});
