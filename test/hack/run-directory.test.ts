import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { it } from "node:test";
import { freePorts } from "../support/ports.ts";

it("says in one line that the directory of make run cannot be made", async () => {
  const { first } = await freePorts(2);
  const env = {
    ...process.env,
    BERTH_RUN_DIR: "/proc/berth-run",
    SVC_PORT: String(first),
    SVC_OPERATOR_PORT: String(first + 1),
  };
  const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((settle) => {
    execFile(process.execPath, ["hack/run.ts"], { env, timeout: 600_000 }, (error, _stdout, text) =>
      settle({ code: error?.code, stderr: text }),
    );
  });
  assert.equal(code, 1);
  assert.match(stderr, /^make run: \/proc\/berth-run\/config\/slots cannot be written; choose another place: .*\n$/);
});
