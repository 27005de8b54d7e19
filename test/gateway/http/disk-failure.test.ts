import assert from "node:assert/strict";
import { it } from "node:test";
import type { ApiError } from "../../../src/api/errors.ts";
import { diskFailure, managementFailure } from "../../../src/gateway/http/disk-failure.ts";

const failing = (code: string): Error => Object.assign(new Error("/srv/secret"), { code, path: "/srv/state/groups/a" });
const told = ({ status, message, headers }: ApiError): unknown[] => [status, message, headers["retry-after"]];

it("a full disk is a temporary failure, whose directory is named to administrators alone; no other failure is explained", () => {
  for (const code of ["ENOSPC", "EDQUOT"]) {
    const failure = diskFailure(failing(code), "hold the upload");
    assert.deepEqual(told(failure), [503, "there is no disk space to hold the upload", "30"]);
    assert.doesNotMatch(JSON.stringify(failure.envelope()), /srv/);
    const named = managementFailure(failing(code), "do this");
    const message = "there is no disk space to do this: make room on the disk of /srv/state/groups";
    assert.deepEqual(told(named), [503, message, "30"]);
    assert.deepEqual(named.details, { reason: "NoSpace", directory: "/srv/state/groups" });
  }
  for (const code of ["EROFS", "EPERM", "EACCES"]) {
    const { status, message, details } = managementFailure(failing(code), "do this");
    assert.equal(status, 500);
    assert.match(
      message,
      /^\/srv\/state\/groups\/a cannot be read or written \(E[A-Z]+\): the file system is read-only, or /,
    );
    assert.deepEqual(details, { reason: "NoAccess", path: "/srv/state/groups/a" });
  }
  for (const other of [diskFailure(failing("EACCES"), "do this"), managementFailure(failing("EIO"), "do this")]) {
    assert.equal(other.code, "system.internal");
    assert.doesNotMatch(JSON.stringify(other.envelope()), /srv/);
  }
});
