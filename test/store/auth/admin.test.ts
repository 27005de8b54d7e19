import assert from "node:assert/strict";
import { it } from "node:test";
import { openAdmin } from "../../../src/store/open-admin.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("the administrator of this machine's proxy is kept beside any store", async () => {
  await using dir = await tempDir();
  for (const store of ["kubernetes", "files"] as const) {
    const config = { store, stateDir: `${dir.path}/${store}`, configDir: dir.path, readOnly: false };
    const admin = openAdmin(config);
    assert.equal(await admin.read(), undefined);
    const kept = await admin.keep("ada", "a password of some length");
    assert.deepEqual(await openAdmin(config).read(), kept);
  }
});
