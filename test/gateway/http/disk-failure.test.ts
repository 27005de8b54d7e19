import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { diskFailure, managementFailure } from "../../../src/gateway/http/disk-failure.ts";

describe("diskFailure", () => {
  for (const code of ["ENOSPC", "EDQUOT"]) {
    it(`reports a full disk (${code}) as a temporary error`, () => {
      const failure = diskFailure(Object.assign(new Error("write"), { code }), "hold the upload");
      assert.equal(failure.status, 503);
      assert.equal(failure.code, "system.overloaded");
      assert.equal(failure.message, "there is no disk space to hold the upload");
      assert.deepEqual(failure.headers, { "retry-after": "30" });
    });
  }

  it("names the directory to administrators, and no other failure", () => {
    const error = Object.assign(new Error("write"), { code: "ENOSPC", path: "/srv/state/groups/loan.gpu.json" });
    const failure = managementFailure(error, "do this");
    assert.deepEqual(
      [failure.status, failure.message, failure.details, failure.headers],
      [
        503,
        "there is no disk space to do this: make room on the disk of /srv/state/groups",
        { reason: "NoSpace", directory: "/srv/state/groups" },
        { "retry-after": "30" },
      ],
    );
    assert.doesNotMatch(JSON.stringify(diskFailure(error, "hold the upload").envelope()), /srv/);
    const other = managementFailure(Object.assign(error, { code: "EACCES" }), "do this");
    assert.doesNotMatch(JSON.stringify(other.envelope()), /srv/);
  });

  it("explains no other failures", () => {
    const failure = diskFailure(Object.assign(new Error("EACCES: /secret"), { code: "EACCES" }), "hold the upload");
    assert.equal(failure.code, "system.internal");
    assert.doesNotMatch(JSON.stringify(failure.envelope()), /secret/);
  });
});
