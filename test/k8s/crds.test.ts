import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { crd } from "../../hack/generate/crd.ts";
import { resources } from "../../hack/generate/resources.ts";
import { apiVersion, kinds, type Kind } from "../../src/api/names.ts";
import { emptyStatus, type SlotStatus } from "../../src/api/status.ts";
import { ApiError } from "../../src/kubernetes/api-error.ts";
import { openApiClient, patchTypes, type ApiClient } from "../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../src/kubernetes/kubeconfig.ts";
import { isRecord } from "../../src/lib/record.ts";
import { judgeSpec } from "../../src/store/judged-spec.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
let plane: SharedPlane;
let client: ApiClient;

before(async () => {
  plane = await sharedPlane();
  client = openApiClient(await readKubeconfig({ KUBECONFIG: plane.kubeconfig }));
});
after(async () => {
  client[Symbol.dispose]();
  await plane[Symbol.asyncDispose]();
});

const pathOf = (kind: Kind, name: string): string =>
  `/apis/${apiVersion}/namespaces/default/${resources[kind].plural}/${name}`;

/** As a person or a Git tool applies it on the server. */
async function apply(kind: Kind, name: string, content: object, part = ""): Promise<Readonly<Record<string, unknown>>> {
  const answer = await client.request("PATCH", `${pathOf(kind, name)}${part}`, {
    query: { fieldManager: "test", force: true, fieldValidation: "Strict" },
    body: { apiVersion, kind, metadata: { name }, ...content },
    contentType: patchTypes.apply,
  });
  assert.ok(isRecord(answer));
  return answer;
}

const slot = { model: { default: "m" } };

/** Every message that the API server has for it; empty where it is accepted. */
async function refusal(kind: Kind, name: string, spec: object): Promise<string> {
  try {
    await apply(kind, name, { spec });
    return "";
  } catch (error) {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 422);
    return error.message;
  }
}

describe("a real API server with the CRDs", () => {
  for (const dir of ["manifests/examples/slots", "manifests/catalog"])
    for (const file of readdirSync(join(root, dir)).filter((name) => name.endsWith(".yaml")))
      it(`accepts every resource of ${dir}/${file}`, async () => {
        for (const document of parseAllDocuments(readFileSync(join(root, dir, file), "utf8"))) {
          const value: unknown = document.toJS();
          assert.ok(isRecord(value) && isRecord(value["metadata"]) && isRecord(value["spec"]));
          const kind = kinds.find((each) => each === value["kind"]);
          assert.ok(kind);
          await apply(kind, String(value["metadata"]["name"]), { spec: value["spec"] });
        }
      });

  it("fills in the defaults of file mode: the stored spec is the same spec", async () => {
    const cases: readonly (readonly [Kind, object])[] = [
      ["Slot", { ...slot, load: "onDemand", probe: {}, request: { set: { temperature: 0 } } }],
      ["Slot", { enabled: false }],
      ["Model", { source: "file:///m.gguf" }],
      ["Upstream", { baseUrl: "https://example.com/v1", models: [{ ref: "a" }], discover: {} }],
      ["SlotGroup", {}],
    ];
    for (const [kind, spec] of cases) {
      const stored = await apply(kind, "defaults", { spec });
      const [here, there] = [judgeSpec(kind, "defaults", spec), judgeSpec(kind, "defaults", stored["spec"])];
      assert.ok(here.isWellFormed && there.isWellFormed);
      assert.equal(there.specHash, here.specHash, kind);
      await client.request("DELETE", pathOf(kind, "defaults"));
    }
  });

  it("refuses with the message of file mode, at the same field", async () => {
    const upstream = { baseUrl: "https://example.com/v1", models: [{ ref: "a" }] };
    const cases: readonly (readonly [Kind, string, object])[] = [
      ["Slot", "a", {}],
      ["Slot", "tts", { ...slot, engine: "llama" }],
      ["Slot", "a", { ...slot, engine: "custom" }],
      ["Slot", "a", { ...slot, capabilities: ["chat", "speech"] }],
      ["Slot", "stt", { ...slot, capabilities: ["chat"] }],
      ["Slot", "tts", { model: { default: "m", rerank: "r" } }],
      ["Slot", "a", { ...slot, pinned: true }],
      ["Slot", "a", { ...slot, aliases: ["a"] }],
      ["Model", "m", {}],
      ["Model", "m", { source: "file:///a", files: [{ source: "file:///b" }] }],
      ["SlotGroup", "g", { budget: { slots: 1, device: "gpu0" } }],
      ["Upstream", "u", { baseUrl: upstream.baseUrl }],
      ["Upstream", "u", { ...upstream, auth: { type: "bearer" } }],
      ["Upstream", "u", { ...upstream, auth: { type: "none", valueFrom: { env: "A" } } }],
      ["Upstream", "u", { ...upstream, auth: { type: "header", valueFrom: { env: "A" } } }],
      ["Upstream", "u", { ...upstream, auth: { type: "bearer", header: "x", valueFrom: { env: "A" } } }],
      ["Upstream", "u", { ...upstream, headers: { Authorization: "Bearer x" } }],
      ["Upstream", "u", { ...upstream, baseUrl: "ftp://example.com" }],
      ["Upstream", "u", { ...upstream, baseUrl: "https://me:secret@example.com/v1" }],
    ];
    const long = "a-name-of-more-than-thirty-two-characters";
    assert.match(
      await refusal("Slot", long, slot),
      new RegExp(`metadata\\.name: .*"${long}" is not a slot name: 1 to 32`),
    );
    for (const [kind, name, spec] of cases) {
      const here = judgeSpec(kind, name, spec);
      const there = await refusal(kind, name, spec);
      assert.notEqual(here.problems.length, 0);
      for (const { path, message } of here.problems) {
        const field = ["spec", ...path.filter((part) => !/^\d+$/.test(String(part)))].slice(0, 3);
        assert.ok(there.includes(message), `${JSON.stringify(spec)}: ${there} lacks ${message}`);
        assert.ok(there.includes(field.slice(0, 2).join(".")), `${there} names no ${field.join(".")}`);
      }
    }
  });

  it("takes the largest objects, and every later change of them", async () => {
    const refs = Array.from({ length: 256 }, (_, index) => `${String(index).padStart(3, "0")}${"a".repeat(198)}`);
    const upstream = { baseUrl: "https://example.com/v1", models: refs.map((ref) => ({ ref })) };
    const largest: readonly (readonly [Kind, object, object])[] = [
      ["Slot", { ...slot, aliases: refs }, { idleSeconds: 5 }],
      ["Upstream", upstream, { retries: 0 }],
    ];
    for (const [kind, spec, change] of largest) {
      await apply(kind, "largest", { spec });
      await apply(kind, "largest", {
        metadata: { name: "largest", finalizers: ["berth.dev/engine"] },
        spec: { ...spec, ...change },
      });
      await apply(kind, "largest", { metadata: { name: "largest", finalizers: [] }, spec });
      await client.request("DELETE", pathOf(kind, "largest"));
    }
  });

  it("takes a status whose lists and maps become empty, and a part that is gone", async () => {
    await apply("Slot", "status", { spec: slot });
    const at = "2026-01-01T00:00:00.000Z";
    const full: SlotStatus = {
      ...emptyStatus,
      conditions: [
        { type: "Ready", status: "True", observedGeneration: 1, lastTransitionTime: at, reason: "Idle", message: "" },
      ],
      decisions: { threads: { value: "4", reason: "cores" } },
      processes: [{ role: "main", ordinal: 0, host: "h", port: 1, endpoint: "e", isReady: true }],
      progress: { bytesDone: 1 },
      lastError: { reason: "r", message: "m", time: at },
      handledRequests: { restart: "t" },
      transitions: [{ at, from: "offline", to: "ready", reason: "r", message: "m" }],
      counters: { transitions: { ready: 1 }, restarts: 0 },
      aliases: ["x"],
    };
    for (const status of [full, emptyStatus, full]) {
      const record = JSON.stringify({ revision: 1, spec: { env: status === full ? { A: "b" } : {} } });
      const { status: stored } = await apply("Slot", "status", { status: { ...status, record } }, "/status");
      assert.deepEqual(stored, { ...status, record });
    }
  });

  it("takes a podTemplate and every other map and list that a Git tool empties", async () => {
    const claims = [{ name: "g", resourceClaimName: "g" }];
    const full = {
      podTemplate: { spec: { priorityClassName: "x" } },
      env: { A: "b" },
      resources: { extended: { "amd.com/gpu": 1 }, claims },
      aliases: ["x"],
      request: { set: { a: 1 }, strip: ["b"] },
      mounts: [{ source: "/a", target: "/b" }],
    };
    const empty = { podTemplate: {}, resources: { extended: {}, claims: [] }, request: { set: {}, strip: [] } };
    await apply("Slot", "emptied", { spec: { ...slot, ...full } });
    const emptied = await apply("Slot", "emptied", { spec: { ...slot, ...empty, env: {}, aliases: [], mounts: [] } });
    assert.ok(isRecord(emptied["spec"]));
    assert.deepEqual(emptied["spec"]["podTemplate"], {});
    const gone = await apply("Slot", "emptied", { spec: slot });
    assert.ok(isRecord(gone["spec"]) && !("podTemplate" in gone["spec"]));
  });

  it("shows a Ready column for each kind, and lets the operator alone say it", async () => {
    const specs = {
      Slot: slot,
      Model: { source: "file:///m" },
      Upstream: { baseUrl: "https://example.com/v1", models: [{ ref: "a" }] },
      SlotGroup: {},
    };
    const ready = { type: "Ready", status: "True", reason: "ScaledToZero", message: "idle" };
    const lastTransitionTime = "2026-01-01T00:00:00.000Z";
    for (const kind of kinds) {
      const plural = `${resources[kind].plural}.berth.dev`;
      const status = { conditions: [{ ...ready, observedGeneration: 1, lastTransitionTime }], observedGeneration: 1 };
      const first = await apply(kind, "column", { spec: specs[kind], status });
      // Whoever counts by kstatus, as Flux does, waits until the generation is observed.
      assert.deepEqual(said(first), [0, "Ready", "Unknown", "NotObserved"], "a manifest says nothing of the status");
      assert.match(await plane.kubectl(["get", plural, "column"]), /READY +REASON[^]*Unknown +NotObserved/);
      await apply(kind, "column", { status: kind === "Slot" ? { ...emptyStatus, ...status } : status }, "/status");
      assert.match(await plane.kubectl(["get", plural, "column"]), /READY +REASON[^]*True +ScaledToZero/);
      await plane.kubectl(["wait", "--for=condition=Ready", "--timeout=5s", `${plural}/column`]);
    }
  });
});

/** The observed generation, and the first condition. */
function said({ status }: Readonly<Record<string, unknown>>): readonly unknown[] {
  if (!isRecord(status) || !Array.isArray(status["conditions"])) return [];
  const [condition]: readonly unknown[] = status["conditions"];
  return isRecord(condition)
    ? [status["observedGeneration"], condition["type"], condition["status"], condition["reason"]]
    : [];
}

it("kubectl explain describes every field", () => {
  const bare: string[] = [];
  const walk = (node: unknown, path: string): void => {
    if (!isRecord(node)) return;
    const isNamed = !path.endsWith("[]") && !path.endsWith("*") && !path.includes(" metadata");
    if (isNamed && typeof node["description"] !== "string") bare.push(path);
    const properties = isRecord(node["properties"]) ? node["properties"] : {};
    for (const [name, inner] of Object.entries(properties))
      walk(inner, `${path}${path.endsWith(" ") ? "" : "."}${name}`);
    walk(node["items"], `${path}[]`);
    walk(node["additionalProperties"], `${path}.*`);
  };
  const definition = z.object({
    spec: z.object({ versions: z.tuple([z.object({ schema: z.object({ openAPIV3Schema: z.looseObject({}) }) })]) }),
  });
  for (const kind of kinds) {
    const { openAPIV3Schema: schema } = definition.parse(crd(kind)).spec.versions[0].schema;
    for (const [name, inner] of Object.entries(isRecord(schema["properties"]) ? schema["properties"] : {}))
      walk(inner, `${kind} ${name}`);
  }
  assert.deepEqual(bare, []);
});
