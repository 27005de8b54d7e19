import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { command } from "../support/berth.ts";
import { temporaryDirectory } from "../support/directory.ts";

test("a start that asks for authentication is refused while there is none: it would run open", async () => {
  await using directory = await temporaryDirectory();
  const { status, stdout } = spawnSync(command, ["serve"], {
    encoding: "utf8",
    timeout: 20_000,
    env: {
      PATH: process.env["PATH"],
      SVC_AUTH_ENABLED: "1",
      SVC_PORT: "0",
      SVC_CONFIG_DIR: directory.path,
      SVC_STATE_DIR: directory.path,
      BERTH_LOG: "text",
    },
  });
  assert.equal(status, 1);
  assert.match(stdout, /fatal gateway {2}SVC_AUTH_ENABLED is on, but this version has no authentication yet/);
});
