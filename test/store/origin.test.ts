import assert from "node:assert/strict";
import { it } from "node:test";
import { describeOrigin } from "../../src/store/origin.ts";

it("an origin is shown as the place to change", () => {
  assert.equal(describeOrigin({ kind: "file", path: "/c/slots/a.toml" }), "/c/slots/a.toml");
  const object = { kind: "object", name: "slots.berth.dev/a", namespace: "ai" } as const;
  assert.equal(describeOrigin(object), "slots.berth.dev/a in namespace ai");
});
