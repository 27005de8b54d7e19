import assert from "node:assert/strict";
import { ChildProcess, spawn, spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Part } from "../../src/main/part.ts";
import { runScarce } from "../support/out-of-files.ts";
import { until } from "../support/until.ts";

/** Is ready at once, and ends on request or when its parent is gone. */
const program = `
  process.on("disconnect", () => process.exit(0));
  process.on("SIGINT", () => process.exit(0));
  process.send("ready");`;

function noProcess(code: string): ChildProcess {
  const child = new ChildProcess();
  process.nextTick(() => child.emit("error", new Error(`spawn node ${code}`)));
  return child;
}

describe("a part of `berth up`", () => {
  const failures = {
    "with an event": () => noProcess("EAGAIN"),
    "by throwing": () => {
      throw new Error("spawn ENOMEM");
    },
  };
  for (const [how, fail] of Object.entries(failures)) {
    it(`ends everything where the system refuses a process for its first start (${how})`, async () => {
      const lines: string[] = [];
      const failed = Promise.withResolvers<void>();
      const log = { error: (line: string) => void lines.push(line), warn: () => undefined };
      const part = new Part({ name: "gateway", fork: fail, log, onFailed: failed.resolve });
      part.start();
      await failed.promise;
      assert.match(lines.join("\n"), /^gateway could not be started \(spawn (node EAGAIN|ENOMEM)\)$/);
      await part.stop("interrupt");
    });

    it(`is started again and again where the system refuses a process after it was ready (${how})`, async () => {
      const lines: string[] = [];
      const children: ChildProcess[] = [];
      let shortages = 0;
      const part = new Part({
        name: "gateway",
        fork: () => {
          if (children.length === 1 && shortages < 2) {
            shortages += 1;
            return fail();
          }
          const child = spawn(process.execPath, ["--eval", program], { stdio: ["ignore", "ignore", "ignore", "ipc"] });
          children.push(child);
          child.once("message", () => lines.push("ready"));
          return child;
        },
        log: { error: (line) => void lines.push(line), warn: (line) => void lines.push(line) },
        onFailed: () => lines.push("failed"),
      });
      part.start();
      await until("it is ready", () => lines.includes("ready"));
      children[0]?.kill("SIGKILL");
      await until("it is ready again", () => lines.filter((line) => line === "ready").length === 2);
      const error = /\(spawn .*\)/.exec(lines[2] ?? "")?.[0] ?? "";
      assert.deepEqual(lines, [
        "ready",
        "gateway ended (SIGKILL); starting it again",
        `gateway could not be started ${error}; trying again in 0.5 s`,
        `gateway could not be started ${error}; trying again in 1 s`,
        "ready",
      ]);
      await part.stop("interrupt");
      assert.equal(children[1]?.exitCode, 0);
    });
  }

  it("is started again, each time later, where its starts end before they are ready after a good start", async () => {
    const lines: string[] = [];
    const children: ChildProcess[] = [];
    const part = new Part({
      name: "operator",
      fork: () => {
        // The second and the third start find what keeps them from being ready, such as a bad `berth.toml`.
        const source = children.length === 1 || children.length === 2 ? "process.exit(1)" : program;
        const child = spawn(process.execPath, ["--eval", source], { stdio: ["ignore", "ignore", "ignore", "ipc"] });
        children.push(child);
        child.once("message", () => lines.push("ready"));
        return child;
      },
      log: { error: (line) => void lines.push(line), warn: (line) => void lines.push(line) },
      onFailed: () => lines.push("failed"),
    });
    part.start();
    for (const round of [1, 2]) {
      await until("it is ready", () => lines.filter((line) => line === "ready").length === round);
      children.at(-1)?.kill("SIGKILL");
    }
    await until("it is ready again", () => lines.filter((line) => line === "ready").length === 3);
    assert.deepEqual(lines, [
      "ready",
      "operator ended (SIGKILL); starting it again",
      "operator ended (code 1) before it was ready; trying again in 0.5 s",
      "operator ended (code 1) before it was ready; trying again in 1 s",
      "ready",
      "operator ended (SIGKILL); starting it again",
      "ready",
    ]);
    await part.stop("interrupt");
    assert.equal(children.at(-1)?.exitCode, 0);
  });

  it("is not started again when it is stopped while the system refuses processes", async () => {
    const lines: string[] = [];
    let forks = 0;
    const part = new Part({
      name: "operator",
      fork: () => {
        forks += 1;
        return noProcess("EAGAIN");
      },
      log: { error: (line) => void lines.push(line), warn: () => undefined },
      onFailed: () => lines.push("failed"),
    });
    part.start();
    await part.stop("interrupt");
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([forks, lines], [1, []]);
  });

  it("runs again once a process that could open no file may open some", async () => {
    const source = JSON.stringify(new URL("../../src/main/part.ts", import.meta.url).href);
    const said = await runScarce(`
      import { fork } from "node:child_process";
      import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
      import { tmpdir } from "node:os";
      import { join } from "node:path";
      const { Part } = await import(${source});
      const directory = mkdtempSync(join(tmpdir(), "berth-part-"));
      writeFileSync(join(directory, "child.mjs"), ${JSON.stringify(program)});
      let open = [];
      let child;
      let isFirst = true;
      const part = new Part({
        name: "gateway",
        fork: () => {
          child = fork(join(directory, "child.mjs"), { execArgv: [], stdio: ["ignore", "ignore", "ignore", "ipc"] });
          child.once("message", async () => {
            console.log("ready");
            if (isFirst) {
              isFirst = false;
              // Its own files are given back when it has ended: they must not make room for another.
              child.once("close", () => open.push(...exhaust()));
              child.kill("SIGKILL");
              return;
            }
            await part.stop("interrupt");
            rmSync(directory, { recursive: true });
          });
          return child;
        },
        log: {
          error: (line) => {
            console.log(line);
            if (line.includes("trying again")) giveBack(open.splice(0));
          },
          warn: () => undefined,
        },
        onFailed: () => console.log("failed"),
      });
      part.start();`);
    assert.match(
      said,
      /^ready\ngateway ended \(SIGKILL\); starting it again\ngateway could not be started \(spawn .+ EMFILE\); trying again in 0.5 s\nready$/,
    );
  });
});

it("the process of a part refuses a name that is none, and starts nothing", async () => {
  const entry = fileURLToPath(new URL("../../src/main/part-entry.ts", import.meta.url));
  for (const args of [[], ["gateway"], ["toString"]]) {
    const { status, stderr } = spawnSync(process.execPath, ["--disable-warning=ExperimentalWarning", entry, ...args], {
      encoding: "utf8",
    });
    assert.equal(status, 1);
    assert.match(stderr, new RegExp(`no part of \`berth up\`: ${args[0] ?? String.raw`\(no name\)`}`));
  }
});
