import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { diskFailure } from "../../src/gateway/disk-failure.ts";

describe("diskFailure", () => {
  for (const code of ["ENOSPC", "EDQUOT"]) {
    it(`tells of a full disk (${code}) as of something that passes`, () => {
      const failure = diskFailure(Object.assign(new Error("write"), { code }), "hold the upload");
      assert.equal(failure.status, 503);
      assert.equal(failure.code, "system.overloaded");
      assert.equal(failure.message, "there is no disk space to hold the upload");
      assert.deepEqual(failure.headers, { "retry-after": "30" });
    });
  }

  it("tells nothing of other failures", () => {
    const failure = diskFailure(Object.assign(new Error("EACCES: /secret"), { code: "EACCES" }), "hold the upload");
    assert.equal(failure.code, "system.internal");
    assert.doesNotMatch(JSON.stringify(failure.envelope()), /secret/);
  });
});
