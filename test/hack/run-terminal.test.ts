import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { familyOf } from "../support/child-of.ts";
import { greeting } from "../support/make-run.ts";
import { freePorts } from "../support/ports.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const missing = ["script", "make"].find((program) => spawnSync(program, ["--version"]).status !== 0);
const skip = missing === undefined ? false : `${missing} is not here`;

it("make run ends where only make is notified that the terminal is closed", { skip, timeout: 600_000 }, async () => {
  await using directory = await tempDir();
  const { first, last } = await freePorts(8);
  // What the Makefile does, without its set-up.
  const makefile = join(directory.path, "Makefile");
  await writeFile(makefile, `run:\n\t@exec ${process.execPath} --disable-warning=ExperimentalWarning hack/run.ts\n`);
  const child = spawn("script", ["--quiet", "--return", "--command", `exec make -f ${makefile} run`, "/dev/null"], {
    env: {
      PATH: process.env["PATH"],
      SHELL: "/bin/sh",
      HOME: directory.path,
      BERTH_RUN_DIR: join(directory.path, "run"),
      SVC_PORT: String(first),
      SVC_OPERATOR_PORT: String(first + 1),
      SVC_SLOT_PORTS: `${first + 2}-${last}`,
      SVC_LLAMA_SERVER: "none",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const closed = new Promise((resolve) => child.once("close", resolve));
  let family: readonly number[] = [];
  try {
    await until("it greets", () => text.includes(greeting));
    const all = familyOf(child.pid ?? 0);
    family = all.slice(1);
    assert.ok(family.length >= 5, `make, make run, operator, gateway and engines: ${family.join(" ")}`);
    child.kill("SIGKILL");
    await until("all of it has ended", () => family.every((pid) => !existsSync(`/proc/${pid}`)));
  } finally {
    for (const pid of family.filter((left) => existsSync(`/proc/${left}`))) process.kill(pid, "SIGKILL");
    child.kill("SIGKILL");
    await closed;
  }
});
