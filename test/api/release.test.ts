import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compareVersions, releaseIndexSchema, releaseSchema, releaseVersionSchema } from "../../src/api/release.ts";

const release = { version: "0.1.0", target: "linux-x64", state_format: 1, unpacked_bytes: 123 };
const file = { url: "berth-0.1.0-linux-x64.tar.gz", sha256: "a".repeat(64), bytes: 1, unpacked_bytes: 2 };
const entry = { version: "0.1.0", released: "2026-11-29", state_format: 1, files: { "linux-x64": file } };

describe("release.json", () => {
  it("is read, without the fields of later versions", () => {
    assert.deepEqual(releaseSchema.parse({ ...release, later: 1 }), release);
    const update_url = "https://example.org/index.json";
    assert.deepEqual(releaseSchema.parse({ ...release, update_url }), { ...release, update_url });
  });

  it("is refused with another address, target, or version", () => {
    for (const wrong of [
      { update_url: "file:///x" },
      { target: "darwin-arm64" },
      { version: "../x" },
      { state_format: 0 },
    ])
      assert.equal(releaseSchema.safeParse({ ...release, ...wrong }).success, false, JSON.stringify(wrong));
  });
});

describe("index.json", () => {
  it("is read, without the fields and targets of later versions' own", () => {
    const index = { format: 1, channels: { stable: [entry], nightly: [] } };
    assert.deepEqual(releaseIndexSchema.parse({ ...index, later: 1 }), index);
    assert.deepEqual(releaseIndexSchema.parse({ format: 1, channels: {} }), { format: 1, channels: {} });
  });

  it("is refused in another format, and with a sum that is none", () => {
    assert.equal(releaseIndexSchema.safeParse({ format: 2, channels: {} }).success, false);
    const files = { "linux-x64": { ...file, sha256: "a" } };
    assert.equal(
      releaseIndexSchema.safeParse({ format: 1, channels: { stable: [{ ...entry, files }] } }).success,
      false,
    );
  });
});

describe("versions", () => {
  it("are those of semantic versioning, and no path", () => {
    for (const version of ["0.1.0", "10.20.30", "1.0.0-alpha.0", "1.0.0-x-y.7", "1.0.0-0a"])
      assert.equal(releaseVersionSchema.safeParse(version).success, true, version);
    for (const version of [
      "",
      "1",
      "1.0",
      "v1.0.0",
      "1.0.0+1",
      "01.0.0",
      "1.0.0-",
      "1.0.0-01",
      "1.0.0/..",
      "..",
      "1.0.0\n",
    ])
      assert.equal(releaseVersionSchema.safeParse(version).success, false, version);
  });

  it("are ordered", () => {
    // The example of semantic versioning 2.0.0, section 11, with some more.
    const ordered = [
      "0.9.9",
      "1.0.0-0",
      "1.0.0-alpha",
      "1.0.0-alpha.1",
      "1.0.0-alpha.beta",
      "1.0.0-beta",
      "1.0.0-beta.2",
      "1.0.0-beta.11",
      "1.0.0-rc.1",
      "1.0.0-rc-1",
      "1.0.0",
      "1.0.2",
      "1.0.10",
      "1.2.0",
    ];
    assert.deepEqual(ordered.toReversed().toSorted(compareVersions), ordered);
    assert.equal(compareVersions("1.0.0-rc.1", "1.0.0-rc.1"), 0);
  });
});
