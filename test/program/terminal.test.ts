import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { it } from "node:test";
import { command, startBerth } from "../support/berth.ts";
import { familyOf } from "../support/child-of.ts";
import { until } from "../support/until.ts";
import { save } from "./coder.ts";

const skip = spawnSync("script", ["--version"]).status === 0 ? false : "script, of bsdutils, is not here";

it("nothing of berth up is left once its terminal is closed", { skip, timeout: 120_000 }, async () => {
  await using berth = await startBerth({
    program: "script",
    args: ["--quiet", "--return", "--command", `exec ${command} up`, "/dev/null"],
    env: { SHELL: "/bin/sh" },
    prepare: save,
  });
  await berth.state("coder", "ready");
  const [terminal = 0, ...family] = familyOf(berth.child.pid ?? 0);
  assert.ok(family.length >= 4, `up, operator, gateway and the engine: ${family.join(" ")}`);
  // The other end of the terminal goes with it: what is written there fails from now on.
  process.kill(terminal, "SIGKILL");
  await until("all of it has ended", () => family.every((pid) => !existsSync(`/proc/${pid}`)));
});
