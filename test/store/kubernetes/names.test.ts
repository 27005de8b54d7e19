import assert from "node:assert/strict";
import { it } from "node:test";
import { gatewayLease, gatewayName } from "../../../src/store/kubernetes/names.ts";

it("a gateway in a Pod is named after it, apart from an earlier start in the same Pod", () => {
  const pod = { POD_NAME: "berth-b7866d847-s9lbt" };
  assert.equal(gatewayName(pod, "gateway-1-39f407e1"), "berth-b7866d847-s9lbt-39f407e1");
  assert.notEqual(gatewayName(pod, "gateway-1-803f7327"), gatewayName(pod, "gateway-1-39f407e1"));
  assert.ok(gatewayLease(gatewayName({ POD_NAME: "p".repeat(253) }, "gateway-1-39f407e1")).length < 253);
});

it("a gateway elsewhere keeps its own name", () => {
  for (const env of [{}, { POD_NAME: "" }])
    assert.equal(gatewayName(env, "gateway-12-39f407e1"), "gateway-12-39f407e1");
});
