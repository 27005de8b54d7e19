import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { checkName, readManifest } from "../../../src/gateway/management/manifest-body.ts";
import { thrownBy } from "../../support/rejection.ts";

const spec = { model: { default: "m" } };

describe("a manifest over the API", () => {
  it("is a flat spec with its name beside, or a whole manifest", () => {
    const read = { name: "a", spec, labels: { team: "x" } };
    assert.deepEqual(readManifest("Slot", { name: "a", ...spec, labels: { team: "x" } }, undefined), read);
    const whole = {
      apiVersion: "berth.dev/v1alpha1",
      kind: "Slot",
      metadata: { name: "a", labels: { team: "x" } },
      spec,
    };
    assert.deepEqual(readManifest("Slot", whole, undefined), read);
    assert.deepEqual(readManifest("Slot", { ...whole, metadata: {} }, "a"), { ...read, labels: undefined });
  });

  const rows: readonly (readonly [body: object, path: readonly string[], inPath?: string])[] = [
    [{ name: "a", modle: {} }, ["modle"]],
    [{ name: "a", model: { default: "m", parallel: "2" } }, ["model", "parallel"]],
    [{ name: "a" }, ["model", "default"]],
    [{ name: "a", ...spec, labels: { a: 1 } }, ["labels"]],
    [{ name: 5, ...spec }, ["name"]],
    [{ kind: "Model", metadata: { name: "a" }, spec }, ["kind"]],
    [{ apiVersion: "v2", metadata: { name: "a" }, spec }, ["apiVersion"]],
    [{ kind: "Slot", metadata: { name: "a" }, spec: { ...spec, idleSeconds: -1 } }, ["spec", "idleSeconds"]],
    [{ kind: "Slot", metadata: { name: "a" }, spec, more: 1 }, ["more"]],
    [{ kind: "Slot", metadata: { name: "a", annotations: {} }, spec }, ["metadata", "annotations"]],
    [{ kind: "Slot", metadata: [], spec }, ["metadata"]],
    [{ kind: "Slot", metadata: { name: "a" }, spec: 5 }, ["spec"]],
    [{ name: "other", ...spec }, ["name"], "primary"],
    [{ metadata: { name: "other" }, spec }, ["metadata", "name"], "primary"],
  ];
  it("is refused with the field that is wrong", () => {
    for (const [body, path, name] of rows) {
      const { code, details } = thrownBy(() => readManifest("Slot", { ...body }, name), ApiError);
      assert.deepEqual([code, details?.["path"]], ["config.invalid", path], JSON.stringify(body));
    }
    const group = thrownBy(() => readManifest("SlotGroup", { budget: { slots: "2" } }, "gpu"), ApiError);
    assert.deepEqual(group.details?.["path"], ["budget", "slots"]);
  });

  it("has a name that a file may have", () => {
    checkName("a-1");
    for (const name of ["UP", "a/b", "..", "-a", "x".repeat(33), "__proto__", "../../etc"]) {
      const { code, details } = thrownBy(() => checkName(name), ApiError);
      assert.deepEqual([code, details?.["path"]], ["dispatch.invalid_request", ["name"]], name);
    }
  });
});
