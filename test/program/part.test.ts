import assert from "node:assert/strict";
import { ChildProcess, fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Part } from "../../src/program/part.ts";
import { runScarce } from "../support/out-of-files.ts";
import { tempDir } from "../support/temp-dir.ts";

const entry = fileURLToPath(new URL("../../src/program/part-entry.ts", import.meta.url));

/** A DOUBLE of a process: it is ready at once or ends with a code, and obeys every signal. */
function processDouble(endsWith?: number): ChildProcess {
  const child = Object.assign(new ChildProcess(), {
    pid: 1,
    kill: (signal: NodeJS.Signals) => {
      child.emit("exit", signal === "SIGKILL" ? null : 0, signal === "SIGKILL" ? signal : null);
      return true;
    },
  });
  process.nextTick(() =>
    endsWith === undefined ? child.emit("message", "ready") : child.emit("exit", endsWith, null),
  );
  return child;
}

function noProcess(): ChildProcess {
  const child = new ChildProcess();
  process.nextTick(() => child.emit("error", new Error("spawn node EAGAIN")));
  return child;
}

const refusals = {
  "with an event": noProcess,
  "by throwing": () => {
    throw new Error("spawn ENOMEM");
  },
};

/** A part whose processes are made by these functions, one after the other, each as soon as the last one has ended. */
function scene(...starts: readonly (() => ChildProcess)[]) {
  const told: string[] = [];
  const children: ChildProcess[] = [];
  const tell = (line: string): void => void told.push(line);
  const part = new Part({
    name: "operator",
    fork: () => {
      const child = (starts[children.length] ?? assert.fail("it is started once more"))();
      children.push(child);
      child.on("message", (message) => tell(message === "ready" ? "ready" : "acting"));
      return child;
    },
    log: { error: tell, warn: tell },
    onFailed: () => tell("failed"),
    later: (task, ms) => {
      tell(`after ${ms} ms`);
      task();
    },
  });
  const settled = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
  return { part, told, children, settled };
}

describe("a part of `berth up`", () => {
  for (const [how, refuse] of Object.entries(refusals))
    it(`ends everything where the system refuses a process for its first start (${how})`, async () => {
      const { part, told, settled } = scene(refuse);
      part.start();
      await settled();
      assert.match(told.join("\n"), /^operator could not be started \(spawn (node EAGAIN|ENOMEM)\)\nfailed$/);
    });

  it("ends everything where its first process ends before it is ready", async () => {
    const { part, told, settled } = scene(() => processDouble(1));
    part.start();
    await settled();
    assert.deepEqual(told, ["failed"]);
  });

  it("is started again, each time later, where its starts fail in whatever way after a good start", async () => {
    const ending = (): ChildProcess => processDouble(1);
    const refusing = (): ChildProcess => {
      children.push(new ChildProcess());
      return refusals["by throwing"]();
    };
    const { part, told, children, settled } = scene(
      processDouble,
      ending,
      noProcess,
      refusing,
      processDouble,
      processDouble,
    );
    part.start();
    await settled();
    children[0]?.kill("SIGKILL");
    for (let turn = 0; turn < 5; turn += 1) await settled();
    children.at(-1)?.kill("SIGKILL");
    await settled();
    assert.deepEqual(told, [
      "ready",
      "operator ended (SIGKILL); starting it again",
      "after 500 ms",
      "operator ended (code 1) before it was ready; trying again in 0.5 s",
      "after 500 ms",
      "operator could not be started (spawn node EAGAIN); trying again in 1 s",
      "after 1000 ms",
      "operator could not be started (spawn ENOMEM); trying again in 2 s",
      "after 2000 ms",
      "ready",
      "operator ended (SIGKILL); starting it again",
      "after 500 ms",
      "ready",
    ]);
    await part.stop("interrupt");
    assert.equal(told.at(-1), "ready", "it is not started again");
  });

  it("is not started again when it is stopped while the system refuses processes", async () => {
    const { part, told, children, settled } = scene(noProcess);
    part.start();
    await part.stop("interrupt");
    await settled();
    assert.deepEqual([children.length, told], [1, []]);
  });

  it("has left engines unless it has ended by itself after it was stopped", async () => {
    const acting = (): ChildProcess => {
      const child = processDouble();
      process.nextTick(() => child.emit("message", "acting"));
      return child;
    };
    for (const signal of ["SIGKILL", "SIGINT", undefined] as const) {
      const { part, children, settled } = scene(acting, () => processDouble());
      part.start();
      await settled();
      if (signal !== undefined) children[0]?.kill(signal);
      part.keepDown();
      if (signal === undefined) await part.stop("interrupt");
      assert.equal(part.hasLeftEngines, signal !== undefined, signal);
    }
  });

  it("runs again once a process that could open no file may open some", async () => {
    const source = JSON.stringify(new URL("../../src/program/part.ts", import.meta.url).href);
    const said = await runScarce(`
      import { spawn } from "node:child_process";
      const { Part } = await import(${source});
      // Is ready at once, and ends on request.
      const program = 'process.on("SIGINT", () => process.exit(0)); process.send("ready"); process.on("message", () => 0)';
      let open = [];
      let child;
      let isFirst = true;
      const part = new Part({
        name: "gateway",
        fork: () => {
          child = spawn(process.execPath, ["--eval", program], { stdio: ["ignore", "ignore", "ignore", "ipc"] });
          child.once("message", async () => {
            console.log("ready");
            if (isFirst) {
              isFirst = false;
              // Its own files are given back when it has ended: they must not make room for another.
              child.once("close", () => open.push(...exhaust()));
              child.kill("SIGKILL");
            } else await part.stop("interrupt");
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

describe("the process of a part", () => {
  it("refuses a name that is none, and starts nothing", () => {
    for (const args of [[], ["toString"]]) {
      const options = { encoding: "utf8" } as const;
      const { status, stderr } = spawnSync(process.execPath, [entry, ...args], options);
      assert.equal(status, 1);
      assert.match(stderr, new RegExp(`no part of \`berth up\`: ${args[0] ?? String.raw`\(no name\)`}`));
    }
  });

  for (const [part, code] of [
    ["operator", 1],
    ["serve", 0],
  ] as const)
    it(`ends by itself where berth up has gone before it began: ${part}`, async () => {
      await using directory = await tempDir();
      const env = { HOME: directory.path, SVC_STATE_DIR: directory.path, SVC_CONFIG_DIR: directory.path };
      const child = fork(entry, [part], {
        env: { PATH: process.env["PATH"], ...env },
        stdio: ["ignore", "ignore", "pipe", "ipc"],
      });
      try {
        let said = "";
        child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
        child.disconnect();
        assert.deepEqual(await once(child, "exit"), [code, null]);
        assert.equal(said, "");
      } finally {
        child.kill("SIGKILL");
      }
    });
});
