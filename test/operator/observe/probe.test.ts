import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { httpProbe } from "../../../src/operator/observe/probe.ts";

describe("asking an engine", () => {
  it("fails without throwing where a manifest's path cannot be sent", async () => {
    const result = await httpProbe({ host: "127.0.0.1", port: 1, path: "/health of mine", timeoutMs: 5000 });
    assert.equal(result.outcome, "failed");
    assert.match("message" in result ? result.message : "", /^\/health of mine: /);
  });
});
