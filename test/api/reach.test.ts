import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { knownKeys } from "../../src/api/known-keys.ts";
import { reaching, slotReach } from "../../src/api/reach.ts";
import { slotSpecSchema } from "../../src/api/slot.ts";

/** Every field of the schema that is no map of fields itself, by path. */
function fieldsOf(path: readonly string[] = []): string[] {
  const keys = knownKeys(slotSpecSchema, path);
  return keys.length === 0 ? [path.join(".")] : keys.flatMap((key) => fieldsOf([...path, key]));
}

function fieldsSaid(reach: object, path: readonly string[] = []): string[] {
  return Object.entries(reach).flatMap(([key, inner]: [string, unknown]) =>
    typeof inner === "object" && inner !== null ? fieldsSaid(inner, [...path, key]) : [[...path, key].join(".")],
  );
}

describe("what a slot's fields can do with the machine", () => {
  it("is declared for every field of the schema, and for no other", () => {
    // Lists are one field, whatever their items hold.
    const fields = fieldsOf().map((field) => field.replace(/^mounts\..*$/, "mounts"));
    assert.deepEqual([...new Set(fields)].toSorted(), fieldsSaid(slotReach).toSorted());
  });

  it("finds each value that is run or opened", () => {
    const spec = {
      command: ["sh"],
      env: { A: "1", B: { valueFrom: { file: "/x" } } },
      model: { default: "m", projector: "/p.gguf" },
      idleSeconds: 1,
    };
    assert.deepEqual(
      reaching(spec).map(({ path }) => path.join(".")),
      ["command", "env.A", "env.B", "model.projector", "runtime", "program"],
    );
  });

  it("counts the slot's runtime and program among them where the slot runs its own code", () => {
    const pathsOf = (spec: object): string[] =>
      reaching({ runtime: "process", ...spec }).map(({ path }) => path.join("."));
    assert.deepEqual(pathsOf({ command: ["sh"] }), ["command", "runtime", "program"]);
    assert.deepEqual(pathsOf({ args: ["--x"] }), ["args", "runtime", "program"]);
    assert.deepEqual(pathsOf({ image: "x" }), ["image", "runtime", "program"]);
    assert.deepEqual(pathsOf({ args: [], mounts: [], devices: [], env: {}, model: { default: "m" } }), []);
  });
});
