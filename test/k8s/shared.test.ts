import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { apiServerFactsSchema } from "../support/kube/control-plane.ts";

const withShared = fileURLToPath(new URL("../support/kube/with-shared.ts", import.meta.url));

it("a shared control plane is removed where TERM ends the run", async () => {
  const command = ["sh", "-c", 'echo "$BERTH_TEST_PLANE"; exec sleep 1000'];
  const child = spawn(process.execPath, [withShared, "plane", ...command], { stdio: ["ignore", "pipe", "inherit"] });
  const [line]: unknown[] = await once(child.stdout.setEncoding("utf8"), "data");
  const { directory } = apiServerFactsSchema.parse(JSON.parse(String(line)));
  await access(directory);
  child.kill("SIGTERM");
  const [code]: unknown[] = await once(child, "exit");
  // The command may be left where the test fails.
  child.stdout.destroy();
  assert.equal(code, 1);
  await assert.rejects(access(directory), { code: "ENOENT" });
});
