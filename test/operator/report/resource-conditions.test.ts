import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Condition } from "../../../src/api/conditions.ts";
import { modelSpecSchema, type ModelRecord } from "../../../src/api/model.ts";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import type { ListedPull } from "../../../src/models/fetch/model-pulls.ts";
import { WatchedProgress } from "../../../src/models/fetch/progress.ts";
import { pullClaims, resourceStatuses } from "../../../src/operator/report/resource-conditions.ts";
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
const wrong = (reason: Diagnostic["reason"]): Partial<Desired<"Model">> => ({
  diagnostics: [{ reason, file: "/c/models/m.toml", line: 3, message: "no" }],
});
const broken = wrong("InvalidSpec");
type Records = ReadonlyMap<string, ModelRecord>;
const nothing = { records: new Map<string, ModelRecord>() };
const manifests = (models: readonly Desired<"Model">[], upstreams: readonly Desired<"Upstream">[] = []) => {
  return { models, upstreams, groups: [] };
};
const conditionsOf = (
  model: Desired<"Model">,
  records: Records = new Map(),
  pulls: readonly ListedPull[] = [],
): readonly Condition[] =>
  resourceStatuses(manifests([model]), { records, pulls: pullClaims(pulls) }, [], at(0)).flatMap(
    ({ conditions }) => conditions,
  );
const told = (conditions: readonly Condition[]): string[] =>
  conditions.map(({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`);
const short = (...args: Parameters<typeof conditionsOf>): string[] => told(conditionsOf(...args));
const only = (...records: ModelRecord[]): Records => new Map(records.map((each) => [each.ref, each]));

/**
 * The verdict of kstatus, by which Helm 4, Flux and kubectl's tools wait for a resource of any kind:
 * https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/status/generic.go
 */
function kstatus(conditions: readonly Condition[]): "Current" | "InProgress" | "Failed" {
  for (const { type, status } of conditions) {
    if (type === "Reconciling" && status === "True") return "InProgress";
    if (type === "Stalled" && status === "True") return "Failed";
  }
  return conditions.some(({ type, status }) => type === "Ready" && status !== "True") ? "InProgress" : "Current";
}

describe("an upstream's conditions", () => {
  const said = (origin: Desired<"Upstream">["origin"]): string[] => {
    const valueFrom = { secretKeyRef: { name: "acme", key: "token" } };
    const auth = { type: "bearer", valueFrom } as const;
    const spec = upstreamSpecSchema.parse({ baseUrl: "https://api.example.com/v1", auth, models: [{ ref: "far" }] });
    const { labels, annotations, since, diagnostics, generation } = declared("m");
    const rest = { labels, annotations, since, diagnostics, generation, specHash: "h" };
    const upstreams = [{ kind: "Upstream", name: "acme", spec, origin, ...rest } as const];
    return resourceStatuses(manifests([], upstreams), nothing, [], at(0)).flatMap(({ conditions }) => told(conditions));
  };

  it("say that a key of a cluster's Secret cannot be had outside of one, and who knows the rest", () => {
    const message =
      "/c/acme.toml: auth.valueFrom.secretKeyRef needs a cluster, and there is none here; use env or file";
    assert.deepEqual(said({ kind: "file", path: "/c/acme.toml" }), [
      `Ready False NoKey: ${message}`,
      `Stalled True NoKey: ${message}`,
    ]);
    assert.deepEqual(said({ kind: "object", name: "upstreams.berth.dev/acme", namespace: "ai" }), [
      "Ready True Accepted: the manifest is valid and in force; `berth upstream show acme` says whether its key is there and it answers",
    ]);
  });
});

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

  it("let tools that wait by kstatus pass a model that no slot needs yet, and wait for a model that is being fetched", () => {
    const fetch = { files: [{ source: "hf://o/r/m.gguf" }] };
    const far = record({ ref: "m", origin: "manifest", name: "m", state: "missing", reason: "NotFetched", fetch });
    const pull = (job: ListedPull["job"]): ListedPull => ({
      key: "m",
      model: { ref: "m", files: fetch.files, isOpen: false },
      job,
      requesters: ["primary"],
    });
    const progress = Object.assign(new WatchedProgress(), { bytesDone: 0.43 * 2 ** 30, bytesTotal: 2 ** 30 });
    const stuck = Object.assign(new WatchedProgress(), { trouble: "hub.example.org does not answer" });
    const failed = (isTerminal: boolean): ListedPull["job"] => {
      const reason = isTerminal ? ("SourceNotFound" as const) : ("FetchFailed" as const);
      return { state: "failed", progress, failure: { reason, message: "no answer", isTerminal } };
    };
    const cases: [string, ModelRecord, readonly ListedPull[], string, string][] = [
      ["not fetched", far, [], "Current", "Ready True NotFetched: "],
      [
        "running",
        far,
        [pull({ state: "running", progress })],
        "InProgress",
        "Reconciling True Pulling: m is being fetched: 40% of 1.0 GiB",
      ],
      [
        "without a network",
        far,
        [pull({ state: "running", progress: stuck })],
        "InProgress",
        "Reconciling True Pulling: m is being fetched; no byte comes, and it is tried again: hub.example.org does not answer",
      ],
      [
        "paused",
        far,
        [pull({ state: "paused", progress })],
        "InProgress",
        "Reconciling True Pulling: the pull of m is paused: 40% of 1.0 GiB; `berth pull resume m` goes on with it",
      ],
      ["retried", far, [pull(failed(false))], "InProgress", "Reconciling True ProgressingWithRetry: no answer"],
      ["failed", far, [pull(failed(true))], "Failed", "Stalled True SourceNotFound: no answer"],
      [
        "one of two pulls has failed",
        far,
        [pull({ state: "running", progress }), pull(failed(true))],
        "InProgress",
        "Reconciling True Pulling: m is being fetched: 40% of 1.0 GiB",
      ],
      ["license", { ...far, reason: "LicenseNotAccepted", message: "read it" }, [], "Failed", "Stalled True License"],
      ["there", record({ ref: "m", origin: "manifest", name: "m" }), [], "Current", "Ready True Available: "],
    ];
    for (const [name, known, pulls, verdict, last] of cases) {
      assert.equal(kstatus(conditionsOf(declared("m"), only(known), pulls)), verdict, name);
      assert.equal(short(declared("m"), only(known), pulls).at(-1)?.slice(0, last.length), last, name);
    }
  });

  it("name the place of the problem, and say whether a spec is in force", () => {
    assert.equal(
      short(declared("m", { spec: undefined, ...broken }))[1],
      "Stalled True InvalidSpec: /c/models/m.toml:3: no",
    );
    const inForce = short(declared("m", broken))[1] ?? "";
    assert.match(inForce, /:3: no\nwhat it said when it was last valid stays in force$/);
  });

  it("report a ref that another Model has, a second manifest of a name, and an invalid name", () => {
    const other = only(record({ ref: "m", origin: "manifest", name: "first" }));
    const taken = conditionsOf(declared("m"), other);
    assert.match(told(taken)[1] ?? "", /^Stalled True NameConflict: .* the ref m belongs to Model first$/);
    assert.equal(kstatus(taken), "Failed", "waiting for it would not end");
    assert.match(short(declared("m", wrong("DuplicateResource")))[1] ?? "", /^Stalled True NameConflict: /);
    assert.match(short(declared("no ref"))[1] ?? "", /^Stalled True InvalidName: .*"no ref" cannot be a model's ref/);
  });

  it("keep the time of the last move, and count edits, under the next operator too", () => {
    const statuses = (more: Partial<Desired<"Model">>, before: ReturnType<typeof resourceStatuses>, minute: number) =>
      resourceStatuses(manifests([declared("m", more)]), nothing, before, at(minute));
    const seen = ([status]: ReturnType<typeof resourceStatuses>): readonly unknown[] => [
      status?.generation,
      status?.conditions[0]?.lastTransitionTime,
    ];
    const first = statuses({}, [], 0);
    const second = statuses({ specHash: "i" }, first, 5);
    assert.deepEqual(seen(second), [2, at(0).toISOString()]);
    assert.equal(statuses({ specHash: "i", generation: 7 }, first, 5)[0]?.generation, 7, "by a source that counts");
    assert.deepEqual(seen(statuses({ specHash: "i", ...broken }, second, 9)), [2, at(9).toISOString()]);
  });
});
